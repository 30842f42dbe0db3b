"""What several seeds of one training agree on."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from fairseq_aiayn.files.markdown_table import aligned_table
from fairseq_aiayn.runs.differences import TRAIN, options_of, run_differences
from fairseq_aiayn.runs.run_directory import AnyRun

# In what the runs of a group may differ; where and by what machine changes no mathematics
FREE = {"seed", "--seed", "commit"}
FREE_PLACES = {"machine", "package"}


@dataclass(frozen=True)
class OverSeeds:
    """Mean and sample standard deviation of figures, in the order of `what`."""

    runs: tuple[str, ...]  # names, two or more, of different seeds
    what: tuple[str, ...]
    means: tuple[float, ...]
    deviations: tuple[float, ...]


def over_seeds(
    runs: Sequence[AnyRun],
    trained: Sequence[Mapping[str, str]],
    figures: Mapping[str, Callable[[AnyRun], float]],
) -> list[OverSeeds]:
    """Group runs that differ in nothing but their seed, and describe each group of two or more.

    `trained` as in `run_differences`. Of several runs with one seed the first counts.
    """
    groups: list[dict[int | None, tuple]] = []  # by seed, the run and its options
    for one in zip(runs, trained, strict=True):
        seed = one[0].settings.seed
        home = next((group for group in groups if _alike(next(iter(group.values())), one)), None)
        if home is None:
            groups.append({seed: one})
        else:
            home.setdefault(seed, one)
    return [
        _described([run for run, _ in group.values()], figures)
        for group in groups
        if len(group) > 1
    ]


def seeds_cells(groups: Sequence[OverSeeds]) -> list[list[str]]:
    """Return mean ± deviation of every group, at least one, under a header."""
    rows = [
        [
            ", ".join(one.runs),
            *(
                f"{mean:.2f} ± {deviation:.2f}"
                for mean, deviation in zip(one.means, one.deviations)
            ),
        ]
        for one in groups
    ]
    return [["mean ± standard deviation of the runs", *groups[0].what], *rows]


def means_over_seeds(
    runs: Sequence[AnyRun], figures: Mapping[str, Callable[[AnyRun], float]]
) -> list[str]:
    """Return a Markdown table of all groups, by what was asked of the commands, as lines; none
    where there are no groups."""
    groups = over_seeds(runs, [{}] * len(runs), figures)
    return ["", *aligned_table(seeds_cells(groups))] if groups else []


def _alike(first: tuple, second: tuple) -> bool:
    """Do two runs, each with its options, differ in their seed at the most?"""
    (run, options), (other, other_options) = first, second
    if run.training.updates != other.training.updates and not _stops_early(run):
        return False
    found = run_differences([run, other], [options, other_options])
    return all(one.what in FREE or one.where in FREE_PLACES for one in found)


def _stops_early(run: AnyRun) -> bool:
    """Whether its own validations decide for how many updates a run is trained."""
    return "--patience" in options_of(run.settings.commands.get(TRAIN, ""))


def _described(
    group: Sequence[AnyRun], figures: Mapping[str, Callable[[AnyRun], float]]
) -> OverSeeds:
    values = [[figure(run) for run in group] for figure in figures.values()]
    return OverSeeds(
        runs=tuple(run.name for run in group),
        what=tuple(figures),
        means=tuple(map(statistics.mean, values)),
        deviations=tuple(map(statistics.stdev, values)),
    )

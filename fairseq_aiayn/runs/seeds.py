"""Means and deviations of runs that differ only in their seed."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

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
    logged: Sequence[Mapping[str, str]],
    figures: Mapping[str, Callable[[AnyRun], float]],
) -> list[OverSeeds]:
    """Group runs that differ only in their seed, and describe each group of two or more.

    `logged` is as in `run_differences`. The first of several runs with one seed counts.
    """
    groups: list[list[tuple]] = []  # of runs, each with its logged options
    for candidate in zip(runs, logged, strict=True):
        home = next((group for group in groups if _alike(group[0], candidate)), None)
        if home is None:
            groups.append([candidate])
        elif all(run.settings.seed != candidate[0].settings.seed for run, _ in home):
            home.append(candidate)
    return [_described([run for run, _ in group], figures) for group in groups if len(group) > 1]


def _alike(first: tuple, second: tuple) -> bool:
    """Say whether two runs, each with its logged options, differ in nothing but their seed."""
    (run, options), (other, other_options) = first, second
    if run.training.updates != other.training.updates and not _stops_early(run):
        return False
    found = run_differences([run, other], [options, other_options])
    return all(one.what in FREE or one.where in FREE_PLACES for one in found)


def _stops_early(run: AnyRun) -> bool:
    """Say whether the validations of a run decide for how many updates it is trained."""
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

"""Groups of runs that differ only in their seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fairseq_aiayn.runs.differences import run_differences
from fairseq_aiayn.runs.run import ScoredRun

__all__ = ["OverSeeds", "over_seeds"]

# In what runs of several seeds may differ; where and by what machine changes no mathematics
FREE = {"seed", "--seed", "commit"}
FREE_PLACES = {"machine", "package"}


@dataclass(frozen=True)
class OverSeeds:
    """Figures of runs that differ only in their seed."""

    name: str  # of all the runs: theirs without the seed
    runs: tuple[str, ...]  # names, two or more, of different seeds
    seeds: tuple[int | None, ...]
    figures: dict[str, tuple[float, ...]]  # of each run, by their names in tables


def over_seeds(runs: Sequence[ScoredRun]) -> list[OverSeeds]:
    """Describe each group of runs that differ only in their seed by the figures that all runs have;
    the first of several with one seed counts."""
    groups: list[list[ScoredRun]] = []
    for candidate in runs:
        home = next((group for group in groups if _alike(group[0], candidate)), None)
        if home is None:
            groups.append([candidate])
        elif all(run.settings.seed != candidate.settings.seed for run in home):
            home.append(candidate)
    of_all = [run.figures() for run in runs]
    what = [name for name in next(iter(of_all), {}) if all(name in each for each in of_all)]
    return [_over_seeds(group, what) for group in groups if len(group) > 1]


def _alike(run: ScoredRun, other: ScoredRun) -> bool:
    """Return whether two runs differ in nothing but their seed, by the commands that made them."""
    # With --patience, the validations of a run decide for how many updates it is trained
    stops_early = "--patience" in run.settings.training
    if run.training.updates != other.training.updates and not stops_early:
        return False
    differences = run_differences([run, other])
    return all(each.what in FREE or each.where in FREE_PLACES for each in differences)


def _over_seeds(group: Sequence[ScoredRun], what: Sequence[str]) -> OverSeeds:
    # A run's name without the seed, if that is the end of its training's name
    names = (
        run.name.replace(run.settings.name, run.settings.name.removesuffix(f"-{run.settings.seed}"))
        for run in group
    )
    return OverSeeds(
        name=", ".join(dict.fromkeys(names)),
        runs=tuple(run.name for run in group),
        seeds=tuple(run.settings.seed for run in group),
        figures={name: tuple(run.figures()[name] for run in group) for name in what},
    )

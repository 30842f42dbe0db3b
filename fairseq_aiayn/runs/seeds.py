"""Means and deviations of runs that differ only in their seed, and how sure their difference is."""

from __future__ import annotations

import math
import statistics
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from fairseq_aiayn.runs.differences import TRAIN, options_of, run_differences
from fairseq_aiayn.runs.run_directory import AnyRun
from fairseq_aiayn.scores import CONFIDENCE, EstimatedDifference

# In what the runs of a group may differ; where and by what machine changes no mathematics
FREE = {"seed", "--seed", "commit"}
FREE_PLACES = {"machine", "package"}


@dataclass(frozen=True)
class OverSeeds:
    """Figures of each run, their mean and their sample standard deviation, all in the order of
    `what`."""

    name: str  # of all the runs: theirs without the seed
    runs: tuple[str, ...]  # names, two or more, of different seeds
    seeds: tuple[int | None, ...]
    what: tuple[str, ...]
    values: tuple[tuple[float, ...], ...]  # of each run
    means: tuple[float, ...]
    deviations: tuple[float, ...]


def over_seeds(
    runs: Sequence[AnyRun], figures: Mapping[str, Callable[[AnyRun], float]]
) -> list[OverSeeds]:
    """Group runs that differ only in their seed, and describe each group of two or more.

    The first of several runs with one seed counts.
    """
    groups: list[list[AnyRun]] = []
    for candidate in runs:
        home = next((group for group in groups if _alike(group[0], candidate)), None)
        if home is None:
            groups.append([candidate])
        elif all(run.settings.seed != candidate.settings.seed for run in home):
            home.append(candidate)
    return [_described(group, figures) for group in groups if len(group) > 1]


def first_seeds(runs: Sequence[AnyRun], groups: Sequence[OverSeeds]) -> list[AnyRun]:
    """Return the runs without those that repeat an earlier one with another seed."""
    repeated = {name for group in groups for name in group.runs[1:]}
    return [run for run in runs if run.name not in repeated]


def deviation(values: Sequence[float]) -> float:
    """Return the sample standard deviation of two values or more; nan if one, as of a training that
    diverged, is not a number."""
    return statistics.stdev(values) if all(map(math.isfinite, values)) else math.nan


def against(first: OverSeeds, other: OverSeeds) -> list[EstimatedDifference | None]:
    """Test each mean of `other` against that of `first` by Welch's t-test: would other seeds show
    the difference, too?

    None stands for a figure that does not vary at all, or is not always a number.
    """
    return [_contrast(*pair) for pair in zip(first.values, other.values, strict=True)]


def _contrast(first: Sequence[float], other: Sequence[float]) -> EstimatedDifference | None:
    from scipy.stats import ttest_ind  # here: it takes a second, and most commands need no test

    if len(set(first)) == len(set(other)) == 1 or not all(map(math.isfinite, (*first, *other))):
        return None
    with warnings.catch_warnings(action="ignore"):  # equal values of one group do no harm
        found = ttest_ind(other, first, equal_var=False)
    interval = found.confidence_interval(CONFIDENCE)
    return EstimatedDifference(
        difference=statistics.mean(other) - statistics.mean(first),
        low=float(interval.low),
        high=float(interval.high),
        p_value=float(found.pvalue),
    )


def _alike(run: AnyRun, other: AnyRun) -> bool:
    """Say whether two runs differ in nothing but their seed, by the commands that made them."""
    if run.training.updates != other.training.updates and not _stops_early(run):
        return False
    found = run_differences([run, other], [{}, {}])
    return all(one.what in FREE or one.where in FREE_PLACES for one in found)


def _stops_early(run: AnyRun) -> bool:
    """Say whether the validations of a run decide for how many updates it is trained."""
    return "--patience" in options_of(run.settings.commands.get(TRAIN, ""))


def _described(
    group: Sequence[AnyRun], figures: Mapping[str, Callable[[AnyRun], float]]
) -> OverSeeds:
    values = tuple(tuple(figure(run) for run in group) for figure in figures.values())
    names = dict.fromkeys(map(_without_seed, group))
    return OverSeeds(
        name=", ".join(names),
        runs=tuple(run.name for run in group),
        seeds=tuple(run.settings.seed for run in group),
        what=tuple(figures),
        values=values,
        means=tuple(map(statistics.mean, values)),
        deviations=tuple(map(deviation, values)),
    )


def _without_seed(run: AnyRun) -> str:
    """Return a run's name without the seed, if that is the end of its training's name."""
    training = run.settings.name
    return run.name.replace(training, training.removesuffix(f"-{run.settings.seed}"), 1)

"""What several seeds of one training agree on."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from fairseq_aiayn.evaluation.run_directory import AnyRun


@dataclass(frozen=True)
class OverSeeds:
    """Mean and sample standard deviation of figures, in the order of `what`."""

    runs: tuple[str, ...]  # names, two or more, of different seeds
    what: tuple[str, ...]
    means: tuple[float, ...]
    deviations: tuple[float, ...]


def over_seeds(
    runs: Sequence[AnyRun], figures: Mapping[str, Callable[[AnyRun], float]]
) -> list[OverSeeds]:
    """Group runs that differ in their seed alone, and describe each group of two or more."""
    groups: dict[tuple, list[AnyRun]] = {}
    for run in runs:
        settings = run.settings
        made = (settings.system, settings.row, settings.corpus, settings.subset, settings.averaged)
        groups.setdefault((*made, run.training.updates), []).append(run)
    found = []
    for group in groups.values():
        seeds = {run.settings.seed for run in group}
        if len(group) < 2 or len(seeds) < len(group):
            continue
        values = [[figure(run) for run in group] for figure in figures.values()]
        found.append(
            OverSeeds(
                runs=tuple(run.name for run in group),
                what=tuple(figures),
                means=tuple(map(statistics.mean, values)),
                deviations=tuple(map(statistics.stdev, values)),
            )
        )
    return found

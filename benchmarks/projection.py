"""Project what preparing a larger corpus costs, from the costs at two sizes.

There are two projections of each step:

linear  a line through both measurements: a fixed cost and a rate. It goes with the pairs of the
        corpus, but with its types (different words) for what learns byte pairs from the list of
        words, and for the memory of what makes that list. The number of types follows Heaps' law,
        the power of the pairs that both sizes give. It is too large where a cost has a bound that
        only the larger corpus reached, like the memory of shards in work and of caches.
power   the power of the pairs that goes through both measurements. It is the larger one where a
        cost grows faster than the corpus, and too small where much of the cost is fixed.

A cost that was lower for the larger corpus is taken to stay what it is there, as is that of a step
that does not see the training text. One that was too short to be seen for the smaller corpus goes
with the size of the corpus.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from recipe_cost import StepCost, by_stage, peak_mib, total_seconds

# Stages, and programs, that do not see the training text
FIXED = {"0-set_up", "2-held_out", "moses_text.py", "subword-nmt apply-bpe"}
TIME_BY_TYPES = {"subword-nmt learn-bpe"}
MEMORY_BY_TYPES = {"subword-nmt learn-bpe", "count_words.py"}

Point = tuple[float, float]  # a size and its cost
Rule = Callable[[Point, Point, float], float]


@dataclass(frozen=True)
class Measured:
    """The costs of a recipe for a corpus of one size."""

    pairs: int
    types: int  # different words of both languages together, after cleaning
    steps: tuple[StepCost, ...]


@dataclass(frozen=True)
class Sizes:
    """What costs go with: of the smaller corpus, the larger one, and the one to project to."""

    pairs: tuple[float, float, float]
    types: tuple[float, float, float]


@dataclass(frozen=True)
class Projection:
    """The costs of a recipe for a larger corpus."""

    pairs: int
    types: int
    linear: tuple[StepCost, ...]
    power: tuple[StepCost, ...]


@dataclass(frozen=True)
class Summary:
    """Costs in few figures."""

    hours: float
    gib: float
    slowest_stage: str
    slowest_share: float  # of the hours
    largest_stage: str


def project(small: Measured, large: Measured, pairs: int) -> Projection:
    """Project all steps of `large` to a number of pairs.

    Raises ValueError if `large` is not larger than `small`.
    """
    if not (0 < small.pairs < large.pairs and 0 < small.types < large.types):
        raise ValueError(
            f"the second corpus must be larger, has {large.pairs:,} pairs and {large.types:,} "
            f"types after {small.pairs:,} and {small.types:,}"
        )
    types = by_power((small.pairs, small.types), (large.pairs, large.types), pairs)
    sizes = Sizes((small.pairs, large.pairs, pairs), (small.types, large.types, types))
    linear, power = (
        tuple(
            _step(first, last, sizes, rule)
            for first, last in zip(first_costs(small, large), large.steps)
        )
        for rule in (by_line, by_power)
    )
    return Projection(pairs, round(types), linear, power)


def _step(first: StepCost, last: StepCost, sizes: Sizes, rule: Rule) -> StepCost:
    if FIXED & {last.stage, last.step}:
        return last
    x, y, z = sizes.types if last.step in TIME_BY_TYPES else sizes.pairs
    seconds = rule((x, first.seconds), (y, last.seconds), z)
    x, y, z = sizes.types if last.step in MEMORY_BY_TYPES else sizes.pairs
    peak = rule((x, first.peak_mib), (y, last.peak_mib), z)
    return StepCost(last.stage, last.step, round(seconds, 1), round(peak, 1))


def first_costs(small: Measured, large: Measured) -> list[StepCost]:
    """Return the costs in `small` of the steps of `large`; nothing for one too short to be seen."""
    found = {(step.stage, step.step): step for step in small.steps}
    return [
        found.get((step.stage, step.step), StepCost(step.stage, step.step, 0, 0))
        for step in large.steps
    ]


def powers(small: Measured, large: Measured) -> list[tuple[float, float]]:
    """Return by which powers of the pairs the time and the memory of each step grew."""
    pairs = small.pairs, large.pairs
    return [
        (
            exponent((pairs[0], first.seconds), (pairs[1], last.seconds)),
            exponent((pairs[0], first.peak_mib), (pairs[1], last.peak_mib)),
        )
        for first, last in zip(first_costs(small, large), large.steps)
    ]


def by_line(small: Point, large: Point, size: float) -> float:
    """Continue the line through two points; from nothing it goes through the origin."""
    if not small[1]:
        small = 0, 0
    rate = max(0, large[1] - small[1]) / (large[0] - small[0])
    return large[1] + rate * (size - large[0])


def by_power(small: Point, large: Point, size: float) -> float:
    """Continue the power law through two points."""
    return large[1] * (size / large[0]) ** max(0, exponent(small, large))


def exponent(small: Point, large: Point) -> float:
    """Return the power of the size with which a cost grows; 1 where it cannot be known."""
    if not (small[1] and large[1]):
        return 1
    return math.log(large[1] / small[1]) / math.log(large[0] / small[0])


def summarize(steps: tuple[StepCost, ...]) -> Summary:
    """Return the sum of the times, the highest memory, and the stages that make them."""
    stages = by_stage(steps)
    slowest = max(stages, key=lambda stage: total_seconds(stages[stage]))
    largest = max(stages, key=lambda stage: peak_mib(stages[stage]))
    seconds = total_seconds(steps)
    share = total_seconds(stages[slowest]) / seconds
    return Summary(seconds / 3600, peak_mib(steps) / 1024, slowest, share, largest)

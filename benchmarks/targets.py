"""The targets of all benchmarks against stock fairseq, in one table."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Target:
    """A bound of a figure; a row or a precision that is None stands for any."""

    figure: str
    device: str
    at_least: float = -math.inf
    at_most: float = math.inf
    row: str | None = None
    precision: str | None = None

    def concerns(self, figure: str, device: str, row: str | None, precision: str | None) -> bool:
        """Return whether the target is for this figure on this device."""
        of_row, of_precision = self.row in (None, row), self.precision in (None, precision)
        return (self.figure, self.device) == (figure, device) and of_row and of_precision

    def met(self, value: float) -> bool:
        """Return whether a value is within the bound."""
        return self.at_least <= value <= self.at_most

    def __str__(self) -> str:
        if math.isfinite(self.at_least):
            return f"at least {self.at_least:g}"
        return f"at most {self.at_most:g}"


TRAINING = "training, target tokens/s"
CEILING = "share of the ceiling"
START_UP = "start-up to first update"
MEMORY = "peak memory of a training step"
TRANSLATING = "translating, sentences/s"
TRANSLATING_TOKENS = "translating, tokens/s"  # shorter translations must not count as speed
GROWTH = "growth of the time"

TARGETS = (
    Target(TRAINING, "cpu", at_least=1.15, row="tiny", precision="float32"),
    Target(TRAINING, "cpu", at_least=1.0, row="base", precision="float32"),
    Target(TRAINING, "cpu", at_least=1.5, precision="bfloat16"),
    Target(TRAINING, "cuda", at_least=2.0, row="base"),
    Target(TRAINING, "cuda", at_least=2.0, row="big"),
    Target(CEILING, "cuda", at_least=0.45, row="big", precision="bfloat16"),
    Target(START_UP, "cpu", at_most=1.1),
    Target(START_UP, "cuda", at_most=1.1),
    Target(MEMORY, "cpu", at_most=0.75),
    Target(MEMORY, "cuda", at_most=0.6),
    Target(TRANSLATING, "cpu", at_least=1.7),
    Target(TRANSLATING, "cuda", at_least=3.0),
    Target(TRANSLATING_TOKENS, "cpu", at_least=1.7),
    Target(TRANSLATING_TOKENS, "cuda", at_least=3.0),
    Target(GROWTH, "cpu", at_most=1.1),  # of stock's: "nothing worse", and what timings vary by
    Target(GROWTH, "cuda", at_most=1.1),
)


def find_target(
    figure: str, device: str, row: str | None = None, precision: str | None = None
) -> Target | None:
    """Return the target of a figure; None if there is none."""
    concerned = (t for t in TARGETS if t.concerns(figure, device, row, precision))
    return next(concerned, None)

"""Spreads of repeated measurements, and ratios between values of the same turn."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Spread:
    """The median of several values, between their lowest and their highest."""

    median: float
    lowest: float
    highest: float

    def __str__(self) -> str:
        return f"{number(self.median)} ({number(self.lowest)}–{number(self.highest)})"


def number(value: float) -> str:
    """Three digits or more: 0.000123, 0.123, 12.3, 1,234."""
    if not value:
        return "0"
    size = abs(value)
    return f"{value:,.0f}" if size >= 100 else f"{value:.3g}" if size < 1 else f"{value:#.3g}"


def spread(values: Sequence[float]) -> Spread:
    """Return median, lowest and highest, to six digits."""
    median = statistics.median(values)
    return Spread(*(float(f"{value:.6g}") for value in (median, min(values), max(values))))


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> Spread:
    """Return the spread of the ratios of values that were measured in the same turn."""
    return spread([one / other for one, other in zip(ours, theirs, strict=True)])

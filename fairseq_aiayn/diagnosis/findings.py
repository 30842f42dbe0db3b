"""What a comparison with the paper finds, and how much a difference is expected to cost."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Literal

__all__ = ["Weight"]


class Weight(IntEnum):
    """How much a difference is expected to cost or gain; the heaviest comes first."""

    LARGE = 4  # 1 BLEU or more
    MEDIUM = 3  # 0.3 to 1 BLEU
    UNKNOWN = 2  # its effect on BLEU after a whole training has not been measured
    SMALL = 1  # less than 0.3 BLEU
    NONE = 0  # as in the paper, or of no effect


@dataclass(frozen=True)
class Finding:
    """What the paper did, what a training did, and what follows."""

    paper: str
    here: str
    weight: Weight = Weight.NONE
    effect: str = ""  # with its source; empty if this is as in the paper
    change: str = ""  # what to type instead

    @property
    def differs(self) -> bool:
        """Return whether the training differs from the paper."""
        return bool(self.effect)


Here = str | Literal[True] | None  # what a training had: True, what the paper has; None, not known


def as_text(number: float | None) -> str | None:
    """Return a number as findings show it."""
    return None if number is None else f"{number:,g}"


def compare(
    paper: str, here: Here, effect: str, change: str, weight: Weight = Weight.UNKNOWN
) -> Finding | None:
    """Return what a training had beside what the paper has, and what follows if that differs; None
    if no file says what it had."""
    if here is None:
        return None
    if here is True or here == paper:
        return Finding(paper, paper)
    return Finding(paper, here, weight, effect, change)

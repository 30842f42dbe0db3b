"""One comparison of a training with the paper, and how much it matters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

from fairseq_aiayn.diagnosis.evidence import Evidence
from fairseq_aiayn.paper import Row
from fairseq_aiayn.settings import option as fairseq_option


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
        """Does it differ from the paper?"""
        return bool(self.effect)


@dataclass(frozen=True)
class Aspect:
    """Something to compare, and the function that does; None means that no file says it."""

    name: str
    options: tuple[str, ...]  # that the function reads, by fairseq's argument names
    judge: Callable[[Evidence, Row], Finding | None]


def number_aspect(
    name: str,
    option: str,
    paper: Callable[[Row], float],
    weight: Weight,
    effect: str,
    absent: float | None = None,
) -> Aspect:
    """Return the aspect of an option that is a number and has to be the paper's.

    `absent` is what a training has without this option; None if that is not known.
    """

    def judge(found: Evidence, row: Row) -> Finding | None:
        here = found.number(option) if option in found.options else absent
        if here is None:
            return None
        wanted = paper(row)
        change = f"{fairseq_option(option)} {wanted:g}"
        return compare(f"{wanted:,g}", f"{here:,g}", here == wanted, weight, effect, change)

    return Aspect(name, (option,), judge)


def compare(
    paper: str, here: str, same: bool, weight: Weight, effect: str, change: str = ""
) -> Finding:
    """Return a finding whose weight, effect and change count only if this is not the same."""
    return Finding(paper, here) if same else Finding(paper, here, weight, effect, change)

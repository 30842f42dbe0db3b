"""What comparisons find, beside the targets: all targets are in one table here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spreads import Spread

from fairseq_aiayn.text import aligned_lines

TRAINING = "training, target tokens/s"
CEILING = "share of the ceiling"
START_UP = "start-up to first update"
MEMORY = "peak memory of a training step"
TRANSLATING = "translating, sentences/s"
TRANSLATING_TOKENS = "translating, tokens/s"  # shorter translations must not count as speed
PEER = "translating beside CTranslate2, sentences/s"
GROWTH = "growth of the time"


AT_LEAST, AT_MOST = "at least", "at most"


@dataclass(frozen=True)
class Target:
    """A bound of a figure."""

    rule: str  # AT_LEAST or AT_MOST
    bound: float

    def met(self, value: float) -> bool:
        """Return whether a value is within the bound."""
        return value >= self.bound if self.rule == AT_LEAST else value <= self.bound

    def __str__(self) -> str:
        return f"{self.rule} {self.bound:g}"


TARGETS = (  # figure, device, row and precision (None: any), target
    (TRAINING, "cpu", "tiny", "float32", Target(AT_LEAST, 1.15)),
    (TRAINING, "cpu", "base", "float32", Target(AT_LEAST, 1.0)),
    (TRAINING, "cpu", None, "bfloat16", Target(AT_LEAST, 1.5)),
    (TRAINING, "cuda", "base", None, Target(AT_LEAST, 2.0)),
    (TRAINING, "cuda", "big", None, Target(AT_LEAST, 2.0)),
    (CEILING, "cuda", "big", "bfloat16", Target(AT_LEAST, 0.45)),
    (START_UP, "cpu", None, None, Target(AT_MOST, 1.1)),
    (START_UP, "cuda", None, None, Target(AT_MOST, 1.1)),
    (MEMORY, "cpu", None, None, Target(AT_MOST, 0.75)),
    (MEMORY, "cuda", None, None, Target(AT_MOST, 0.6)),
    (TRANSLATING, "cpu", None, None, Target(AT_LEAST, 1.7)),
    (TRANSLATING, "cuda", None, None, Target(AT_LEAST, 3.0)),
    (TRANSLATING_TOKENS, "cpu", None, None, Target(AT_LEAST, 1.7)),
    (TRANSLATING_TOKENS, "cuda", None, None, Target(AT_LEAST, 3.0)),
    (PEER, "cpu", None, "float32", Target(AT_LEAST, 1.0)),
    (PEER, "cpu", None, "bfloat16", Target(AT_LEAST, 1.5)),
    # Of stock's growth: "nothing worse", and what timings vary by
    (GROWTH, "cpu", None, None, Target(AT_MOST, 1.1)),
    (GROWTH, "cuda", None, None, Target(AT_MOST, 1.1)),
)


def find_target(
    figure: str, device: str, row: str | None = None, precision: str | None = None
) -> Target | None:
    """Return the target of a figure in these conditions; None if there is none."""
    for *conditions, target in TARGETS:
        pairs = zip(conditions, (figure, device, row, precision), strict=True)
        if all(condition in (None, value) for condition, value in pairs):
            return target
    return None


@dataclass(frozen=True)
class Finding:
    """A ratio, or a share, with its target."""

    figure: str
    subject: str  # the row, and what else tells it from other findings
    unit: str  # what is divided by what
    value: Spread
    target: str | None
    met: bool | None

    def cells(self) -> list[str]:
        """Its line of a table."""
        verdict = {None: "", True: "met", False: "missed"}[self.met]
        name = f"{self.figure}, {self.subject}"
        return [name, self.unit, str(self.value), self.target or "", verdict]


def finding(
    figure: str, subject: str, unit: str, value: Spread, target: Target | None = None
) -> Finding:
    """Set the median of a value beside its target."""
    met = target.met(value.median) if target else None
    return Finding(figure, subject, unit, value, str(target) if target else None, met)


def findings_table(findings: Sequence[Finding]) -> str:
    """Return the findings with their targets, one per line."""
    head = ["", "", "median (lowest–highest)", "target", ""]
    return "\n".join(aligned_lines([head, *(each.cells() for each in findings)]))

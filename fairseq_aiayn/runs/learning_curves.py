"""How a training went, update by update, as fairseq-train's --log-format json tells it."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fairseq_aiayn.runs.train_log import number, statistics

MEASURES = {"bleu": "BLEU", "f1": "F1"}  # of the development set, by their names in the log


@dataclass(frozen=True)
class Curve:
    """Figures of a training at some of its updates."""

    updates: tuple[int, ...]
    seconds: tuple[float, ...]  # until then
    loss: tuple[float, ...]  # label-smoothed, in bits a target token
    perplexity: tuple[float, ...]  # unsmoothed, a target token

    @property
    def diverged(self) -> int | None:
        """The first of the updates whose loss is not finite; None where all are."""
        pairs = zip(self.updates, self.loss, strict=True)
        return next((update for update, loss in pairs if not math.isfinite(loss)), None)


@dataclass(frozen=True)
class LearningCurves:
    """The curves of one training, each in the order of the updates."""

    training: Curve
    validation: Curve
    rate: tuple[float, ...]  # learning rate at the updates of `training`
    measure: str | None = None  # of the development set: BLEU or F1, where validations took it,
    score: tuple[float, ...] = ()  # and its values at the updates of `validation`


@dataclass(frozen=True)
class _Line:
    """A line of statistics, and the seconds between it and the one before."""

    values: dict
    seconds: float


def read_learning_curves(log: Path) -> LearningCurves:
    """Read a train.log; of a resumed training what its later starts did not do again.

    Time is that of fairseq's clock ("wall"), with validations and checkpoints; where it stands at
    0, as it does after a resume, that of the updates alone. A training shorter than --log-interval
    has no curves. Raises OSError, or ValueError for a figure that is none.
    """
    inner, valid = _kept(log, "num_updates"), _kept(log, "valid_num_updates")
    seconds, elapsed = [], 0.0
    for line in inner.values():
        elapsed += line.seconds
        seconds.append(elapsed)
    updates = list(inner)
    until = [[0.0, *seconds][bisect_right(updates, update)] for update in valid]
    rate = tuple(number(line.values, "lr", log) for line in inner.values())
    return LearningCurves(
        _curve(log, inner, seconds, ""),
        _curve(log, valid, until, "valid_"),
        rate,
        *_development_scores(log, valid),
    )


def _kept(log: Path, key: str) -> dict[int, _Line]:
    """The lines that have `key`, by its value, without those that a later start did again."""
    kept: dict[int, _Line] = {}
    before = 0.0  # what the clock showed
    for line in statistics(log):
        if key not in line:
            continue
        update = int(number(line, key, log))
        while kept and next(reversed(kept)) >= update:
            kept.popitem()
        now = number({"wall": 0, **line}, "wall", log)
        seconds = now - before if now > before else now  # it restarts with the training
        if not now:
            seconds = number({"train_wall": 0, **line}, "train_wall", log)
        before = now
        kept[update] = _Line(line, seconds)
    return kept


def _development_scores(log: Path, lines: dict[int, _Line]) -> tuple[str | None, tuple]:
    """The measure that every validation took, with its values; (None, ()) where none did."""
    for key, measure in MEASURES.items():
        name = f"valid_{key}"
        if lines and all(name in line.values for line in lines.values()):
            return measure, tuple(number(line.values, name, log) for line in lines.values())
    return None, ()


def _curve(log: Path, lines: dict[int, _Line], seconds: Sequence[float], prefix: str) -> Curve:
    return Curve(
        updates=tuple(lines),
        seconds=tuple(seconds),
        loss=tuple(number(line.values, f"{prefix}loss", log) for line in lines.values()),
        perplexity=tuple(number(line.values, f"{prefix}ppl", log) for line in lines.values()),
    )

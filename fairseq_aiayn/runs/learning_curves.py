"""Loss, perplexity and learning rate of a training, update by update, from its JSON log."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from fairseq_aiayn.runs.fairseq_log import Log

MEASURES = {"bleu": "BLEU", "f1": "F1"}  # of the development set, by their names in the log


@dataclass(frozen=True)
class Curve:
    """Figures of a training at some of its updates."""

    updates: tuple[int, ...]
    seconds: tuple[float, ...]  # until then
    loss: tuple[float, ...]  # label-smoothed, in bits per target token
    perplexity: tuple[float, ...]  # unsmoothed, per target token

    @property
    def diverged(self) -> int | None:
        """The first update whose loss is not finite; None if every loss is finite."""
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


def learning_curves_of(log: Log) -> LearningCurves:
    """Return the curves of a train.log; a later start replaces the updates that it did again.

    Time is that of fairseq's clock ("wall"), with validations and checkpoints. After a resume the
    clock stands at 0: from then on time is that of the updates alone. A training shorter than
    --log-interval has no curves. Raises ValueError for a figure that is no number.
    """
    inner, valid = _kept(log, "num_updates"), _kept(log, "valid_num_updates")
    seconds, elapsed = [], 0.0
    for line in inner.values():
        elapsed += line.seconds
        seconds.append(elapsed)
    updates = list(inner)
    until = [[0.0, *seconds][bisect_right(updates, update)] for update in valid]
    rate = tuple(log.number(line.values, "lr") for line in inner.values())
    return LearningCurves(
        _curve(log, inner, seconds, ""),
        _curve(log, valid, until, "valid_"),
        rate,
        *_development_scores(log, valid),
    )


def _kept(log: Log, key: str) -> dict[int, _Line]:
    """Return the lines that have `key`, by its value, without those that a later start replaced."""
    kept: dict[int, _Line] = {}
    before = 0.0  # what the clock showed
    for line in log.statistics:
        if key not in line:
            continue
        update = int(log.number(line, key))
        while kept and next(reversed(kept)) >= update:
            kept.popitem()
        now = log.number({"wall": 0, **line}, "wall")
        seconds = now - before if now > before else now  # it restarts with the training
        if not now:
            seconds = log.number({"train_wall": 0, **line}, "train_wall")
        before = now
        kept[update] = _Line(line, seconds)
    return kept


def _development_scores(log: Log, lines: dict[int, _Line]) -> tuple[str | None, tuple]:
    """Return the measure that every validation has, with its values, or (None, ())."""
    for key, measure in MEASURES.items():
        name = f"valid_{key}"
        if lines and all(name in line.values for line in lines.values()):
            return measure, tuple(log.number(line.values, name) for line in lines.values())
    return None, ()


def _curve(log: Log, lines: dict[int, _Line], seconds: Sequence[float], prefix: str) -> Curve:
    return Curve(
        updates=tuple(lines),
        seconds=tuple(seconds),
        loss=tuple(log.number(line.values, f"{prefix}loss") for line in lines.values()),
        perplexity=tuple(log.number(line.values, f"{prefix}ppl") for line in lines.values()),
    )

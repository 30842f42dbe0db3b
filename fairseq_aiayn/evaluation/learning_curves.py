"""How a training went, update by update, as fairseq-train's --log-format json tells it."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from pathlib import Path

from fairseq_aiayn.evaluation.train_log import statistics


@dataclass(frozen=True)
class Curve:
    """Figures of a training at some of its updates."""

    updates: tuple[int, ...]
    seconds: tuple[float, ...]  # spent in updates until then
    loss: tuple[float, ...]  # label-smoothed, in bits a target token
    perplexity: tuple[float, ...]  # unsmoothed, a target token


@dataclass(frozen=True)
class LearningCurves:
    """The curves of one training, each in the order of the updates."""

    training: Curve
    validation: Curve
    rate: tuple[float, ...]  # learning rate at the updates of `training`


def read_learning_curves(log: Path) -> LearningCurves:
    """Read a train.log; of a resumed training what its later starts did not do again.

    fairseq's own clock ("wall") stands at 0 after a resume, so time is that of the updates alone.
    A training shorter than --log-interval has no curves. Raises OSError.
    """
    inner, valid = _kept(log, "num_updates"), _kept(log, "valid_num_updates")
    seconds, elapsed = [], 0.0
    for line in inner.values():
        elapsed += float(line.get("train_wall", 0))
        seconds.append(elapsed)
    updates = list(inner)
    until = [[0.0, *seconds][bisect_right(updates, update)] for update in valid]
    rate = tuple(float(line["lr"]) for line in inner.values())
    return LearningCurves(_curve(inner, seconds, ""), _curve(valid, until, "valid_"), rate)


def _kept(log: Path, key: str) -> dict[int, dict]:
    """The lines that have `key`, by its value, without those that a later start did again."""
    kept: dict[int, dict] = {}
    for line in statistics(log):
        if key in line:
            update = int(line[key])
            while kept and next(reversed(kept)) >= update:
                kept.popitem()
            kept[update] = line
    return kept


def _curve(lines: dict[int, dict], seconds: list[float], prefix: str) -> Curve:
    return Curve(
        updates=tuple(lines),
        seconds=tuple(seconds),
        loss=tuple(float(line[f"{prefix}loss"]) for line in lines.values()),
        perplexity=tuple(float(line[f"{prefix}ppl"]) for line in lines.values()),
    )

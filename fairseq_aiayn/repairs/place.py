"""A resumed training does not go on where it stopped.

fairseq stores how many batches of the epoch each process had: with another number of processes,
some are seen twice or left out. Where a resumed epoch begins at a batch that is no multiple of
--update-freq, it may have one update too few. And --patience counts validations without an
improvement in memory only, so that a resumed training runs longer than an undisturbed one. Here,
all of this is stored.
"""

from __future__ import annotations

import logging
import math
from typing import Any

from fairseq.data import iterators

from fairseq_aiayn.repairs.program import training_program

logger = logging.getLogger(__name__)


class Groups(iterators.GroupedIterator):
    """fairseq's iterator over the batches of each update, with all that are left."""

    def __init__(self, batches: Any, update_freq: int, skip_remainder_batch: bool = False) -> None:
        super().__init__(batches, update_freq, skip_remainder_batch)
        if not skip_remainder_batch:
            self.total = self.n + math.ceil((len(batches) - batches.n) / update_freq)


class Epochs(iterators.EpochBatchIterator):
    """fairseq's iterator over epochs, which goes on at the place where a training stopped. A
    checkpoint stores its state: also the number of processes, what the order of the batches depends
    on, and what should_stop_early has counted in its attributes."""

    seen_in: tuple[int, int] = (0, 0)  # an epoch, and its batches that all processes have had

    def state_dict(self) -> dict[str, Any]:
        """Return the place; at the end of an epoch, it is the beginning of the next."""
        waited = dict(vars(training_program().should_stop_early))
        place = {"processes": self.num_shards, "batches": self.order_of_batches()}
        return super().state_dict() | place | {"patience": waited}

    def order_of_batches(self) -> dict[str, int]:
        """Return what tells an epoch with the same batches from one with others."""
        group = self.num_shards if self.grouped_shuffling else 1
        return {"number": len(self.frozen_batches), "seed": self.seed, "group": group}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Skip the batches that all processes together have had, or none if the batches are others
        now."""
        state = dict(state)
        vars(training_program().should_stop_early).update(state.pop("patience", {}))
        seen = state.get("iterations_in_epoch", 0) * state.pop("processes", self.num_shards)
        then, now = state.pop("batches", None), self.order_of_batches()
        is_beyond = seen >= now["number"] and state.get("version", 1) > 1  # 1: the epoch had ended
        if seen and (then not in (None, now) or is_beyond):
            seen = 0
            logger.warning(
                "epoch %d begins again, with other batches: %s, not %s", state["epoch"], now, then
            )
        self.seen_in = (state["epoch"], seen)
        super().load_state_dict(state | {"iterations_in_epoch": seen // self.num_shards})

    def ordered_batches(self, epoch: int, *options: bool) -> list[list[int]]:
        """Return this process's batches of an epoch: process i of n has every n-th, from i on. If
        the number of batches seen is no multiple of n, the first processes have had theirs of the
        next n: they get an empty one instead, as fairseq gives at the end of an epoch."""
        batches = super().ordered_batches(epoch, *options)
        row, seen = divmod(self.seen_in[1], self.num_shards)
        if epoch == self.seen_in[0] and self.shard_id < seen:
            batches[row] = []
        return batches

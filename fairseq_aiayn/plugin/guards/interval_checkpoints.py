"""A checkpoint of --save-interval-updates is due once at every multiple of it, also where an epoch
ends.

fairseq takes an update that ends an epoch for the epoch's alone: with --no-epoch-checkpoints or
--save-interval it writes only checkpoint_last.pt there, and does not validate. Then the checkpoints
to average have a gap; if the interval is a whole number of epochs, there are none at all. And where
the update after a checkpoint overflows in float16, fairseq validates and writes the same weights
again: --patience counts this as a validation without an improvement.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps

from fairseq.data.iterators import EpochBatchIterator
from fairseq.tasks import FairseqTask
from fairseq.trainer import Trainer
from omegaconf import DictConfig

from fairseq_aiayn.plugin.guards.training_program import training_program


def install() -> None:
    """Make fairseq-train write them; other commands stay unchanged."""
    train = training_program()
    if train and not hasattr(train.validate_and_save, "saves_at_every_interval"):
        train.validate_and_save = saving_at_every_interval(train.validate_and_save)


def saving_at_every_interval(validate_and_save: Callable) -> Callable:
    """Wrap the function that fairseq calls after every update, also after one that overflowed and
    changed nothing: where a checkpoint of the interval is due and none of the epoch, the update
    counts as one within the epoch."""

    @wraps(validate_and_save)
    def wrapped(
        cfg: DictConfig,
        trainer: Trainer,
        task: FairseqTask,
        epoch_itr: EpochBatchIterator,
        valid_subsets: Sequence[str],
        end_of_epoch: bool,
    ) -> tuple[list[float | None], bool]:
        updates = trainer.get_num_updates()
        is_new, wrapped.updates = updates != wrapped.updates, updates
        if not is_new and not end_of_epoch:
            return [None], False  # what fairseq returns where no checkpoint is due
        if is_new and end_of_epoch and only_interval_is_due(cfg, epoch_itr.epoch, updates):
            epoch_itr, end_of_epoch = WithinEpoch(epoch_itr), False
        return validate_and_save(cfg, trainer, task, epoch_itr, valid_subsets, end_of_epoch)

    wrapped.updates: int | None = None  # at the last call
    wrapped.saves_at_every_interval = True
    return wrapped


def only_interval_is_due(cfg: DictConfig, epoch: int, updates: int) -> bool:
    """Return whether this end of an epoch has a checkpoint of the interval and none of its own."""
    interval = cfg.checkpoint.save_interval_updates
    of_epoch = not cfg.checkpoint.no_epoch_checkpoints and epoch % cfg.checkpoint.save_interval == 0
    return interval > 0 and updates % interval == 0 and not of_epoch


class WithinEpoch:
    """fairseq's iterator over an epoch, which denies that the epoch has ended; the state that a
    checkpoint stores is the iterator's own, so that a resumed training begins the next epoch."""

    def __init__(self, iterator: EpochBatchIterator) -> None:
        self._iterator = iterator

    def __getattr__(self, name: str) -> object:
        return getattr(self._iterator, name)

    def end_of_epoch(self) -> bool:
        return False

"""fairseq takes an update that ends an epoch for the epoch's alone: with --no-epoch-checkpoints or
--save-interval it writes only checkpoint_last.pt there, and does not validate. Then the checkpoints
to average have a gap; if the interval is a whole number of epochs, there are none at all. Here,
an update that is due for the interval but not for the epoch is treated as mid-epoch.

And where the update after a checkpoint overflows in float16, fairseq validates and writes the same
weights again: --patience counts this as a validation without an improvement. Here, it does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import wraps
from typing import Any

from fairseq.tasks import FairseqTask
from fairseq.trainer import Trainer
from omegaconf import DictConfig


def at_intervals(validate_and_save: Callable) -> Callable:
    """Wrap the function that is called after every update, also after one that overflowed and
    changed nothing."""
    updates: int | None = None  # at the last call

    @wraps(validate_and_save)
    def wrapped(
        cfg: DictConfig,
        trainer: Trainer,
        task: FairseqTask,
        epoch_itr: Any,
        valid_subsets: Sequence[str],
        end_of_epoch: bool,
    ) -> tuple[list[float | None], bool]:
        nonlocal updates
        before, updates = updates, trainer.get_num_updates()
        is_new = updates != before
        if not is_new and not end_of_epoch:
            return [None], False  # what fairseq returns where no checkpoint is due
        within = is_new and end_of_epoch and only_interval_is_due(cfg, epoch_itr.epoch, updates)
        with within_epoch(epoch_itr) if within else nullcontext():
            return validate_and_save(
                cfg, trainer, task, epoch_itr, valid_subsets, end_of_epoch and not within
            )

    return wrapped


def only_interval_is_due(cfg: DictConfig, epoch: int, updates: int) -> bool:
    """Return whether this end of an epoch has a checkpoint of the interval and none of its own."""
    interval = cfg.checkpoint.save_interval_updates
    of_epoch = not cfg.checkpoint.no_epoch_checkpoints and epoch % cfg.checkpoint.save_interval == 0
    return interval > 0 and updates % interval == 0 and not of_epoch


@contextmanager
def within_epoch(epoch_itr: Any) -> Iterator[None]:
    """Let the end of an epoch pass for an update within it, but in the place that is stored."""
    end_of_epoch, state_dict = epoch_itr.end_of_epoch, epoch_itr.state_dict

    def state_at_the_end() -> dict[str, Any]:
        epoch_itr.end_of_epoch = end_of_epoch
        state = state_dict()
        epoch_itr.end_of_epoch = no
        return state

    def no() -> bool:
        return False

    epoch_itr.end_of_epoch, epoch_itr.state_dict = no, state_at_the_end
    try:
        yield
    finally:
        epoch_itr.end_of_epoch, epoch_itr.state_dict = end_of_epoch, state_dict

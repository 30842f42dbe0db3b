"""TERM or USR1 ends a training after the running update, with a checkpoint to go on from.

Slurm sends them before the time of a job is up, torchrun and the recipes send TERM. fairseq would
end at once, and lose what it did since the last checkpoint.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable
from functools import wraps
from types import FrameType

import torch
from fairseq import checkpoint_utils
from fairseq.distributed import utils as distributed_utils
from fairseq.trainer import Trainer
from omegaconf import DictConfig
from torch.utils.data import DataLoader

from fairseq_aiayn.plugin.guards.training_program import training_program

SIGNALS = (signal.SIGTERM, signal.SIGUSR1)
logger = logging.getLogger(__name__)
logger.setLevel(logging.INFO)  # fairseq silences all processes but the first


def install() -> None:
    """Make fairseq-train end this way; other commands stay unchanged."""
    train = training_program()
    if train and not hasattr(train.validate_and_save, "received"):
        train.validate_and_save = ending_on_signal(train.validate_and_save)
        DataLoader.__init__ = keeping_workers(DataLoader.__init__)


def ending_on_signal(validate_and_save: Callable) -> Callable:
    """Wrap the function that fairseq calls after every update.

    If any process has received a signal, all of them write the checkpoint together, and end with
    status 128 + TERM. Where a validation is due, it comes after the checkpoint, because there may
    be no time for it.
    """

    @wraps(validate_and_save)
    def wrapped(
        cfg: DictConfig, trainer: Trainer, task: object, epoch_itr: object, *others: object
    ) -> tuple[list[float | None], bool]:
        if wrapped.received is None:
            wrapped.received = []
            _listen(wrapped.received)
            if os.environ.get("LOCAL_RANK", "0") == "0":  # recipes/lib/training.sh looks for it
                updates = trainer.get_num_updates()
                logger.info("update %d is done; TERM now ends with a checkpoint", updates)
        stops = _any_process(trainer, bool(wrapped.received))
        if stops:
            checkpoint_utils.save_checkpoint(cfg.checkpoint, trainer, epoch_itr, None)
        valid_losses, is_done = validate_and_save(cfg, trainer, task, epoch_itr, *others)
        if stops and not is_done:
            _any_process(trainer, False)  # none ends, and torchrun no other, before it is written
            logger.warning("ended by a signal after update %d", trainer.get_num_updates())
            raise SystemExit(128 + signal.SIGTERM)
        return valid_losses, is_done

    wrapped.received: list[int] | None = None
    return wrapped


def _listen(received: list[int]) -> None:
    """Append the signals of this process to the list from now on."""

    def note(number: int, frame: FrameType | None) -> None:
        received.append(number)

    for number in SIGNALS:
        signal.signal(number, note)


def keeping_workers(initialize: Callable) -> Callable:
    """Wrap the constructor of DataLoader: its workers end with their process only.

    torchrun and Slurm send TERM to them, too, and their end would be an error of the running
    update.
    """

    @wraps(initialize)
    def wrapped(*arguments: object, **options: object) -> None:
        initialize(*arguments, **{"worker_init_fn": heed_parent} | options)

    return wrapped


def heed_parent(worker: int) -> None:
    """Make this worker end by TERM from its parent, and by no other TERM."""

    def wait() -> None:
        while signal.sigwaitinfo({signal.SIGTERM}).si_pid != os.getppid():
            pass
        os._exit(0)

    if hasattr(signal, "sigwaitinfo"):  # not on macOS
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        threading.Thread(target=wait, daemon=True).start()


def _any_process(trainer: Trainer, is_true: bool) -> bool:
    """Return whether something is true of any process."""
    if trainer.data_parallel_world_size == 1:
        return is_true
    flag = torch.tensor([int(is_true)], device=trainer.device)
    distributed_utils.all_reduce(flag, trainer.data_parallel_process_group, op="max")
    return bool(flag)

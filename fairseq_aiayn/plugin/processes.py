"""How the processes of a training end: by a signal, with the others, after the last batch."""

from __future__ import annotations

import atexit
import ctypes
import logging
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial, wraps
from types import FrameType
from typing import Any

import torch
from fairseq import checkpoint_utils
from fairseq.data.iterators import BackgroundConsumer
from fairseq.distributed import utils as distributed_utils
from fairseq.trainer import Trainer
from omegaconf import DictConfig
from torch import distributed
from torch.utils.data import DataLoader

from fairseq_aiayn.plugin.commands import training_program

SIGNALS = (signal.SIGTERM, signal.SIGUSR1)
# How long one process waits for the others: as long as NCCL does; gloo would wait for 30 minutes
TIMEOUT = timedelta(minutes=10)
PR_SET_PDEATHSIG = 1  # <sys/prctl.h>
PREFETCH_PATIENCE = 60.0  # seconds; a dead file server must not keep a finished run from ending
logger = logging.getLogger(__name__)
logger.setLevel(logging.INFO)  # fairseq silences all processes but the first


def install() -> None:
    """Make fairseq-train end this way; other commands only end their prefetching."""
    atexit.register(stop_prefetching)
    train = training_program()
    if train is None:
        return
    train.validate_and_save = EndingOnSignal(train.validate_and_save)
    loader: Any = DataLoader
    loader.__init__ = keeping_workers(loader.__init__)
    for name in ("init_process_group", "new_group"):
        setattr(distributed, name, partial(getattr(distributed, name), timeout=TIMEOUT))
    if "TORCHELASTIC_RUN_ID" in os.environ and sys.platform == "linux":
        # Without their torchrun, they would train on beside those that are started in their place.
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


# --- signals ----------------------------------------------------------------------------------


class EndingOnSignal:
    """The function that fairseq calls after every update: TERM or USR1 ends the training there,
    with a checkpoint to go on from.

    Slurm sends them before the time of a job is up, torchrun and the recipes send TERM. If any
    process has received one, all of them write the checkpoint together, and end with status
    128 + TERM. A validation that is due comes after the checkpoint, because there may be no time
    for it.
    """

    def __init__(self, validate_and_save: Callable) -> None:
        self.validate_and_save = validate_and_save
        self.received: list[int] | None = None  # the signals, from the first update on

    def __call__(
        self, cfg: DictConfig, trainer: Trainer, task: object, epoch_itr: object, *others: object
    ) -> tuple[list[float | None], bool]:
        """Validate and write checkpoints; return the losses, and whether the training ends."""
        if self.received is None:
            self.received = listen()
            if os.environ.get("LOCAL_RANK", "0") == "0":  # recipes/training.sh looks for it
                updates = trainer.get_num_updates()
                logger.info("update %d is done; TERM now ends with a checkpoint", updates)
        stops = true_of_any_process(trainer, bool(self.received))
        if stops:
            checkpoint_utils.save_checkpoint(cfg.checkpoint, trainer, epoch_itr, None)
        valid_losses, is_done = self.validate_and_save(cfg, trainer, task, epoch_itr, *others)
        if stops and not is_done:
            # None ends before the checkpoint is written: torchrun would end the others.
            true_of_any_process(trainer, False)
            logger.warning("ended by a signal after update %d", trainer.get_num_updates())
            raise SystemExit(128 + signal.SIGTERM)
        return valid_losses, is_done


def listen() -> list[int]:
    """Return a list to which the signals of this process are appended from now on."""
    received: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        received.append(number)

    for number in SIGNALS:
        signal.signal(number, note)
    return received


def true_of_any_process(trainer: Trainer, is_true: bool) -> bool:
    """Return whether something is true of any process."""
    if trainer.data_parallel_world_size == 1:
        return is_true
    flag = torch.tensor([int(is_true)], device=trainer.device)
    distributed_utils.all_reduce(flag, trainer.data_parallel_process_group, op="max")
    return bool(flag)


def keeping_workers(initialize: Callable) -> Callable:
    """Wrap the constructor of DataLoader: its workers end with their process only.

    torchrun and Slurm send TERM to them, too, and their end would be an error of the running
    update.
    """

    @wraps(initialize)
    def wrapped(*arguments: object, **named: object) -> None:
        initialize(*arguments, **{"worker_init_fn": heed_parent} | named)

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


# --- prefetching ------------------------------------------------------------------------------


def stop_prefetching() -> None:
    """End every reader of batches after its current one, or give up after PREFETCH_PATIENCE.

    fairseq reads ahead in daemon threads and never stops them. Python kills these threads when it
    exits. If one is inside torch at that moment, the whole process ends with SIGABRT ("terminate
    called without an active exception"), and the run counts as failed although its last checkpoint
    is written.
    """
    end = time.monotonic() + PREFETCH_PATIENCE
    for reader in threading.enumerate():
        if isinstance(reader, BackgroundConsumer):
            reader._max_len = 0  # the reader stops when its count of batches reaches this
            while reader.is_alive() and time.monotonic() < end:
                with suppress(queue.Empty):
                    reader._queue.get(timeout=0.05)  # it waits for room in the queue

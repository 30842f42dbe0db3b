"""A training ends with a checkpoint, by a signal too, and goes on exactly where it stopped, also
with another number of processes.

What fairseq does not do:

- It copies a checkpoint to checkpoint_last.pt in place, so that a kill can leave half a file there.
- It stores how many batches of the epoch each process had. With another number of processes, some
  batches would be seen twice or left out.
- With --fp16 and --bf16 it stores the weights in 16 bits only.
- It divides the gradient by too little if the last batch of a process in an update is empty.
- --patience counts validations without an improvement in memory only, so that a resumed training
  would run longer than an undisturbed one.
- It compares with --max-update only after an update, so that a finished training does one more.
- It does not write and validate a checkpoint of --save-interval-updates where an epoch ends.
"""

from __future__ import annotations

import atexit
import ctypes
import logging
import math
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial, wraps
from pathlib import Path
from types import FrameType
from typing import Any, cast

import torch
from fairseq import checkpoint_utils
from fairseq.data import iterators
from fairseq.distributed import utils as distributed_utils
from fairseq.file_io import PathManager
from fairseq.optim.fp16_optimizer import _FP16OptimizerMixin as HalfPrecision
from fairseq.tasks import FairseqTask
from fairseq.trainer import Trainer
from omegaconf import DictConfig
from torch import distributed
from torch.utils.data import DataLoader

from fairseq_aiayn.plugin.commands import training_program

logger = logging.getLogger(__name__)
logger.setLevel(logging.INFO)  # fairseq silences all processes but the first

SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)
# How long one process waits for the others: as long as NCCL does; gloo would wait for 30 minutes
TIMEOUT = timedelta(minutes=10)
PR_SET_PDEATHSIG = 1  # <sys/prctl.h>
PREFETCH_PATIENCE = 60.0  # seconds; a dead file server must not keep a finished run from ending


def install() -> None:
    """Make fairseq-train end and resume this way; other commands only end their prefetching."""
    atexit.register(stop_prefetching)
    train = training_program()
    if train is None:
        return
    loader = cast(Any, DataLoader)
    PathManager.copy = copied_whole(PathManager.copy)
    checkpoint_utils.torch_persistent_save = into_new_file(checkpoint_utils.torch_persistent_save)
    iterators.EpochBatchIterator, iterators.GroupedIterator = Epochs, Groups
    HalfPrecision.state_dict = with_weights(HalfPrecision.state_dict)
    HalfPrecision.load_state_dict = loading_weights(HalfPrecision.load_state_dict)
    Trainer.train_step = without_empty_batches(Trainer.train_step)
    train.train = unless_done(train.train, train.should_stop_early)
    train.validate_and_save = AfterUpdate(train.validate_and_save)
    loader.__init__ = keeping_workers(loader.__init__)
    torch.multiprocessing.spawn = passing_signals_on(torch.multiprocessing.spawn)
    for name in ("init_process_group", "new_group"):
        setattr(distributed, name, partial(getattr(distributed, name), timeout=TIMEOUT))
    if "TORCHELASTIC_RUN_ID" in os.environ and sys.platform == "linux":
        # Without their torchrun, they would train on beside those that are started in their place.
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def copied_whole(copy: Callable) -> Callable:
    """Wrap the function that copies checkpoints: a copy appears whole or not at all, and at once
    where the file system has hard links, so that a kill does not leave it an interval behind."""

    @wraps(copy)
    def wrapped(source: str, target: str, overwrite: bool = False) -> object:
        if not PathManager.supports_rename(target):  # such as s3://
            return copy(source, target, overwrite)
        part, copied = f"{target}.tmp", True
        Path(part).unlink(missing_ok=True)
        try:
            os.link(source, part)
        except OSError:
            copied = copy(source, part, overwrite=True)  # iopath returns False where it fails
        if copied:
            os.replace(part, target)
        return copied

    return wrapped


def into_new_file(save: Callable) -> Callable:
    """Wrap the function that writes a checkpoint: with --write-checkpoints-asynchronously, fairseq
    writes into the file of that name, which `copied_whole` may have linked to others."""

    @wraps(save)
    def wrapped(content: object, path: str, async_write: bool = False) -> None:
        if async_write and PathManager.supports_rename(path):
            Path(path).unlink(missing_ok=True)
        save(content, path, async_write)

    return wrapped


def with_weights(state_dict: Callable) -> Callable:
    """Wrap the function that returns the state of --fp16 or --bf16: it adds the float32 weights."""

    @wraps(state_dict)
    def wrapped(optimizer: HalfPrecision) -> dict[str, Any]:
        weights = [weight.detach() for weight in weights_of(optimizer)]
        return state_dict(optimizer) | {"fp32_params": weights}

    return wrapped


def loading_weights(load_state_dict: Callable) -> Callable:
    """Wrap the function that loads this state; that of stock fairseq has no float32 weights."""

    @wraps(load_state_dict)
    def wrapped(optimizer: HalfPrecision, state: dict[str, Any], *overrides: object) -> None:
        state = dict(state)
        for weight, stored in zip(weights_of(optimizer), state.pop("fp32_params", ())):
            weight.data.copy_(stored)
        load_state_dict(optimizer, state, *overrides)

    return wrapped


def weights_of(optimizer: HalfPrecision) -> list[torch.Tensor]:
    """Return the float32 weights; --fp16 has them flat, in a dict by the number of the GPU, which
    is another in every process."""
    weights = optimizer.fp32_params
    return [*(weights.values() if isinstance(weights, dict) else weights)]


def without_empty_batches(train_step: Callable) -> Callable:
    """Wrap the function that does an update: it leaves out empty batches if there are others. If
    the last batch is empty, fairseq counts no target token of this process's others."""

    @wraps(train_step)
    def wrapped(trainer: Trainer, samples: list[Any], *options: object, **named: object) -> object:
        return train_step(trainer, [*filter(None, samples)] or samples[:1], *options, **named)

    return wrapped


# --- the place in the epoch, and in the patience ----------------------------------------------


class Groups(iterators.GroupedIterator):
    """fairseq's iterator over the batches of each update. Where a resumed epoch begins at a batch
    that is no multiple of --update-freq, fairseq's may have one update too few."""

    def __init__(self, batches: Any, update_freq: int, skip_remainder_batch: bool = False) -> None:
        super().__init__(batches, update_freq, skip_remainder_batch)
        if not skip_remainder_batch:
            self.total = self.n + math.ceil((len(batches) - batches.n) / update_freq)


class Epochs(iterators.EpochBatchIterator):
    """fairseq's iterator over epochs, which goes on at the place where a training stopped. A
    checkpoint stores its state: also the number of processes, what the order of the batches depends
    on, and what should_stop_early has counted in its attributes."""

    seen_in: tuple[int, int] = (0, 0)  # an epoch, and its batches that all processes have had
    denies_its_end = False  # the end of an epoch counts as an update within the epoch

    def end_of_epoch(self) -> bool:
        """Return whether the epoch has ended."""
        return not self.denies_its_end and super().end_of_epoch()

    def state_dict(self) -> dict[str, Any]:
        """Return the place; at the end of an epoch, it is the beginning of the next."""
        place = {"processes": self.num_shards, "batches": self.order_of_batches()}
        denies, self.denies_its_end = self.denies_its_end, False
        state = super().state_dict()
        self.denies_its_end = denies
        return state | place | {"patience": dict(vars(training_program().should_stop_early))}

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


def unless_done(train: Callable, should_stop_early: Callable) -> Callable:
    """Wrap the function that trains for an epoch: it does nothing if the training is done, which
    is so only for one that was resumed."""

    @wraps(train)
    def wrapped(cfg: DictConfig, trainer: Trainer, *arguments: object) -> tuple[list, bool]:
        most, patience = cfg.optimization.max_update, cfg.checkpoint.patience
        updates, waited = trainer.get_num_updates(), vars(should_stop_early).get("num_runs", 0)
        if 0 < most <= updates or 0 < patience <= waited:
            if trainer.is_data_parallel_master:
                logger.info("the training is done already: %d updates", updates)
            return [None], True
        return train(cfg, trainer, *arguments)

    return wrapped


# --- after an update --------------------------------------------------------------------------


class AfterUpdate:
    """The function that fairseq calls after every update, also after one that overflowed and
    changed nothing.

    TERM, USR1 or Ctrl-C ends the training there, with a checkpoint to go on from. Slurm sends the
    first two before the time of a job is up, torchrun and the recipes send TERM. If any process has
    received one, all of them write the checkpoint together, and end with status 128 + TERM. A
    validation that is due comes after the checkpoint, because there may be no time for it.

    Where a checkpoint of the interval is due and none of the epoch, the update counts as one within
    the epoch. fairseq takes an update that ends an epoch for the epoch's alone: with
    --no-epoch-checkpoints or --save-interval it writes only checkpoint_last.pt there, and does not
    validate. Then the checkpoints to average have a gap; if the interval is a whole number of
    epochs, there are none at all. And where the update after a checkpoint overflows in float16,
    fairseq validates and writes the same weights again: --patience counts this as a validation
    without an improvement.
    """

    def __init__(self, validate_and_save: Callable) -> None:
        self.validate_and_save = validate_and_save
        self.received: list[int] | None = None  # the signals, from the first update on
        self.updates: int | None = None  # at the last call

    def __call__(
        self,
        cfg: DictConfig,
        trainer: Trainer,
        task: FairseqTask,
        epoch_itr: Epochs,
        valid_subsets: Sequence[str],
        end_of_epoch: bool,
    ) -> tuple[list[float | None], bool]:
        """Validate and write checkpoints; return the losses, and whether the training ends."""
        updates = trainer.get_num_updates()
        is_new, self.updates = updates != self.updates, updates
        if self.received is None:
            self.received = listen()
            if os.environ.get("LOCAL_RANK", "0") == "0":  # recipes/training.sh looks for it
                ends = "TERM now ends with a checkpoint, as does Ctrl-C; a second one ends at once"
                logger.info("update %d is done; %s", updates, ends)
        stops = true_of_any_process(trainer, bool(self.received))
        if stops:
            checkpoint_utils.save_checkpoint(cfg.checkpoint, trainer, epoch_itr, None)
        losses: list[float | None] = [None]  # what fairseq returns where no checkpoint is due
        is_done = False
        if is_new or end_of_epoch:
            within = is_new and end_of_epoch and only_interval_is_due(cfg, epoch_itr.epoch, updates)
            epoch_itr.denies_its_end = within
            losses, is_done = self.validate_and_save(
                cfg, trainer, task, epoch_itr, valid_subsets, end_of_epoch and not within
            )
            epoch_itr.denies_its_end = False
        if stops and not is_done:
            # None ends before the checkpoint is written: torchrun would end the others.
            true_of_any_process(trainer, False)
            logger.warning("ended by a signal after update %d", updates)
            raise SystemExit(128 + signal.SIGTERM)
        return losses, is_done


def only_interval_is_due(cfg: DictConfig, epoch: int, updates: int) -> bool:
    """Return whether this end of an epoch has a checkpoint of the interval and none of its own."""
    interval = cfg.checkpoint.save_interval_updates
    of_epoch = not cfg.checkpoint.no_epoch_checkpoints and epoch % cfg.checkpoint.save_interval == 0
    return interval > 0 and updates % interval == 0 and not of_epoch


def listen(then: Callable[[], object] = lambda: None) -> list[int]:
    """Return a list to which the signals of this process are appended from now on, and call `then`
    after each. A second Ctrl-C raises KeyboardInterrupt again. What a shell starts in the
    background ignores Ctrl-C, and goes on ignoring it."""
    received: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        received.append(number)
        if number == signal.SIGINT:
            signal.signal(number, signal.default_int_handler)
        then()

    for number in SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, note)
    return received


def passing_signals_on(spawn: Callable) -> Callable:
    """Wrap the function that starts a process per GPU without torchrun: their parent passes signals
    on and waits. fairseq's parent dies of one at once, and they with it, without a checkpoint. It
    passes on TERM: a terminal sends Ctrl-C to all of them, and a second one would end them."""

    @wraps(spawn)
    def wrapped(*arguments: object, **named: object) -> object:
        def pass_on() -> None:
            for process in torch.multiprocessing.active_children():
                os.kill(cast(int, process.pid), signal.SIGTERM)

        passed = listen(pass_on)
        try:
            result = spawn(*arguments, **named)
        except torch.multiprocessing.ProcessExitedException:
            if passed:
                raise SystemExit(128 + signal.SIGTERM) from None
            raise
        if signal.SIGINT in passed:  # torch takes a process that Ctrl-C ended for a finished one
            raise SystemExit(128 + signal.SIGTERM)
        return result

    return wrapped


def true_of_any_process(trainer: Trainer, is_true: bool) -> bool:
    """Return whether something is true of any process."""
    if trainer.data_parallel_world_size == 1:
        return is_true
    flag = torch.tensor([int(is_true)], device=trainer.device)
    distributed_utils.all_reduce(flag, trainer.data_parallel_process_group, op="max")
    return bool(flag)


def keeping_workers(initialize: Callable) -> Callable:
    """Wrap the constructor of DataLoader: its workers end with their process only. torchrun and
    Slurm send TERM to them, too, and a terminal Ctrl-C; their end would be an error of the running
    update."""

    @wraps(initialize)
    def wrapped(*arguments: object, **named: object) -> None:
        initialize(*arguments, **{"worker_init_fn": heed_parent} | named)

    return wrapped


def heed_parent(worker: int) -> None:
    """Make this worker end by TERM from its parent, and by no other TERM and no Ctrl-C."""

    def wait() -> None:
        while signal.sigwaitinfo({signal.SIGTERM}).si_pid != os.getppid():
            pass
        os._exit(0)

    signal.signal(signal.SIGINT, signal.SIG_IGN)
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
        if isinstance(reader, iterators.BackgroundConsumer):
            reader._max_len = 0  # the reader stops when its count of batches reaches this
            while reader.is_alive() and time.monotonic() < end:
                with suppress(queue.Empty):
                    reader._queue.get(timeout=0.05)  # it waits for room in the queue

"""A signal ends fairseq-train at once, and loses what was done since the last checkpoint.

Slurm sends TERM or USR1 before the time of a job is up, torchrun and the recipes send TERM, a
terminal Ctrl-C. Here, each ends the training after the running update, with a checkpoint to go on
from and status 128 + TERM.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial, wraps
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Any, cast

import torch
from fairseq import checkpoint_utils
from fairseq.distributed import utils as distributed_utils
from fairseq.tasks import FairseqTask
from fairseq.trainer import Trainer
from omegaconf import DictConfig

logger = logging.getLogger(__name__)
logger.setLevel(logging.INFO)  # fairseq silences all processes but the first

SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)
STUCK = 10  # seconds in which a process must come back to Python from what it waits for


def ending_by_signal(validate_and_save: Callable) -> Callable:
    """Wrap the function that is called after every update: if any process has received a signal,
    all of them write the checkpoint together, and end. A validation that is due comes after the
    checkpoint, because there may be no time for it. What comes before the first update, but for
    Ctrl-C, is kept until then."""
    returned: SimpleQueue[bool] = SimpleQueue()  # a lock would stop a handler within a handler
    came_back = partial(returned.put, True)
    received = listen(came_back, SIGNALS[:2])
    end_if_stuck(returned)
    is_first = True

    @wraps(validate_and_save)
    def wrapped(
        cfg: DictConfig, trainer: Trainer, task: FairseqTask, epoch_itr: Any, *rest: object
    ) -> tuple[list[float | None], bool]:
        nonlocal is_first
        updates = trainer.get_num_updates()
        if is_first:
            is_first = False
            listen(came_back, SIGNALS, received)
            if os.environ.get("LOCAL_RANK", "0") == "0":  # recipes/training.sh looks for it
                ends = "TERM now ends with a checkpoint, as does Ctrl-C; a second one ends at once"
                logger.info("update %d is done; %s", updates, ends)
        stops = true_of_any_process(trainer, bool(received))
        if stops:
            returned.put(False)  # the others wait for the first to write, however long it takes
            checkpoint_utils.save_checkpoint(cfg.checkpoint, trainer, epoch_itr, None)
        losses, is_done = validate_and_save(cfg, trainer, task, epoch_itr, *rest)
        if stops and not is_done:
            # None ends before the checkpoint is written: torchrun would end the others.
            true_of_any_process(trainer, False)
            logger.warning("ended by a signal after update %d", updates)
            raise SystemExit(128 + signal.SIGTERM)
        return losses, is_done

    return wrapped


def listen(
    then: Callable[[], object],
    signals: Sequence[int] = SIGNALS,
    received: list[int] | None = None,
) -> list[int]:
    """Return a list to which the signals of this process are appended from now on, and call `then`
    after each. A second Ctrl-C raises KeyboardInterrupt again. What a shell starts in the
    background ignores Ctrl-C, and goes on ignoring it."""
    received = [] if received is None else received

    def note(number: int, frame: FrameType | None) -> None:
        received.append(number)
        if number == signal.SIGINT:
            signal.signal(number, signal.default_int_handler)
        then()

    for number in signals:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, note)
    return received


def end_if_stuck(returned: SimpleQueue[bool]) -> None:
    """End this process if it does not come back to Python after a signal, for it waits for another
    that is gone, by NCCL or gloo: Python's handler, which puts True into `returned`, does not run
    before such a wait ends. The signal is sent again, because a wait may begin later, until False
    is there: all processes end together."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)  # written to at once, by C
    os.register_at_fork(after_in_child=lambda: signal.set_wakeup_fd(-1))  # this process's alone
    waiting = threading.get_ident()

    def watch() -> None:
        number = 0
        while number not in SIGNALS[:2]:
            (number,) = os.read(reading, 1)
        try:
            while returned.get(timeout=STUCK):
                time.sleep(STUCK)
                signal.pthread_kill(waiting, number)
        except Empty:
            os.write(2, b"fairseq-train: ended by a signal while it waited for a process\n")
            os._exit(128 + signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


def passing_signals_on(spawn: Callable, *arguments: object, **named: object) -> object:
    """Start a process per GPU without torchrun; their parent passes signals on and waits. fairseq's
    parent dies of one at once, and they with it, without a checkpoint. It passes on TERM: a
    terminal sends Ctrl-C to all of them, and a second one would end them."""

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


def true_of_any_process(trainer: Trainer, is_true: bool) -> bool:
    """Return whether something is true of any process."""
    if trainer.data_parallel_world_size == 1:
        return is_true
    flag = torch.tensor([int(is_true)], device=trainer.device)
    distributed_utils.all_reduce(flag, trainer.data_parallel_process_group, op="max")
    return bool(flag)


def keeping_workers(initialize: Callable, *arguments: object, **named: object) -> None:
    """Construct a DataLoader whose workers end with their process only. torchrun and Slurm send
    TERM to them, too, and a terminal Ctrl-C; their end would be an error of the running update."""
    initialize(*arguments, **{"worker_init_fn": heed_parent} | named)


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

"""After a batch for which the memory is too small, fairseq-train goes on: without a word of what to
change, and without end if it has no room for any. Here, the log says what to change, and the
training ends."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import wraps
from traceback import extract_tb

from fairseq.trainer import Trainer

from fairseq_aiayn.repairs.advice import out_of_memory, smaller_batches
from fairseq_aiayn.repairs.program import TRAIN

LOST_IN_A_ROW = 10  # batches; a training that loses so many loses all of them


def counting_lost_batches(log_oom: Callable) -> Callable:
    """Wrap the function that logs an error of memory: it also logs what to change, once, and raises
    the error of the last of LOST_IN_A_ROW."""
    lost: list[int] = []  # the updates that were done before each

    @wraps(log_oom)
    def wrapped(trainer: Trainer, error: RuntimeError) -> None:
        log_oom(trainer, error)
        steps = [frame.name for frame in extract_tb(error.__traceback__)].count("train_step")
        if steps < 2:  # not within the task's: fairseq does not go on
            return
        lost.append(trainer.get_num_updates())
        if lost[-LOST_IN_A_ROW:] == [lost[-1]] * LOST_IN_A_ROW:
            raise error
        if len(lost) == 1:
            given = {**trainer.cfg.dataset, **trainer.cfg.optimization}
            changes = smaller_batches("fairseq-train", ", in train_step\n", given)
            logger = logging.getLogger(TRAIN)
            logger.warning("%s; fairseq leaves such batches out", out_of_memory(changes))

    return wrapped

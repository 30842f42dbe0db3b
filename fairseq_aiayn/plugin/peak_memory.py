"""The last line of a training's log: how much memory it took at most."""

import logging
import resource
import sys
from multiprocessing.util import Finalize

import torch

from fairseq_aiayn.repairs.program import TRAIN, TRAINING, command_name

KIB, MIB = 2**10, 2**20


def log_at_the_end() -> None:
    """Have a training log its peak memory when it ends."""
    if command_name(sys.argv[0]) in TRAINING:
        Finalize(None, log_peak_memory, exitpriority=0)  # atexit does not run in forked processes


def log_peak_memory() -> None:
    """Write the peak memory as the last line of a training's log, which runs/ reads."""
    unit = 1 if sys.platform == "darwin" else KIB
    host = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit // MIB
    gpu = ""
    if torch.cuda.is_initialized():
        gpu = f", of the GPU {torch.cuda.max_memory_reserved() // MIB} MiB"
    # fairseq silences this logger on all ranks but the first
    logging.getLogger(TRAIN).info("peak memory: %d MiB%s", host, gpu)

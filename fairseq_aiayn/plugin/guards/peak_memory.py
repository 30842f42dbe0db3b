"""Log the peak memory of a training, as the last line of its log."""

from __future__ import annotations

import logging
import resource
import sys
from multiprocessing.util import Finalize

import torch

from fairseq_aiayn.plugin.guards.error_frames import command_name

MIB = 2**20


def install() -> None:
    """Make fairseq-train call `log` when it ends, also in processes that it starts for GPUs."""
    if command_name(sys.argv[0]) == "fairseq-train":
        Finalize(None, log, exitpriority=0)  # atexit does not run in processes that Python forks


def log() -> None:
    """Write the peak to fairseq-train's log, which runs/train_log.py reads."""
    host = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 // MIB
    gpu = ""
    if torch.cuda.is_initialized():
        gpu = f", of the GPU {torch.cuda.max_memory_reserved() // MIB} MiB"
    # fairseq writes only this logger to --log-file, and silences it on all ranks but the first
    logging.getLogger("fairseq_cli.train").info("peak memory: %d MiB%s", host, gpu)

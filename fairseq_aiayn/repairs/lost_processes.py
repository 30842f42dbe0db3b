"""A training whose processes wait for one that is lost does not end: gloo waits for 30 minutes, and
without their torchrun, they would train on beside those that are started in their place."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable
from datetime import timedelta
from functools import partial

TIMEOUT = timedelta(minutes=10)  # as long as NCCL waits
PR_SET_PDEATHSIG = 1  # <sys/prctl.h>


def waiting_less(make_group: Callable) -> Callable:
    """Wrap a function that makes a group of processes: each waits for the others for TIMEOUT."""
    return partial(make_group, timeout=TIMEOUT)


def ending_with_torchrun(init_process_group: Callable) -> Callable:
    """Do so, and make this process end with its torchrun."""
    if "TORCHELASTIC_RUN_ID" in os.environ and sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    return waiting_less(init_process_group)

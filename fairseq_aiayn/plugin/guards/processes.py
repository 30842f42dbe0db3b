"""One of several processes of a training ends when the others, or what started it, are lost."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from datetime import timedelta
from functools import partial

from torch import distributed

from fairseq_aiayn.plugin.guards.training_program import training_program

# How long one process waits for the others: as long as NCCL does; gloo would wait for 30 minutes
TIMEOUT = timedelta(minutes=10)
PR_SET_PDEATHSIG = 1  # <sys/prctl.h>


def install() -> None:
    """Bound the waiting of fairseq-train's processes, and end them with their torchrun."""
    if not training_program():
        return
    for name in ("init_process_group", "new_group"):
        function = getattr(distributed, name)
        if not isinstance(function, partial):
            setattr(distributed, name, partial(function, timeout=TIMEOUT))
    if "TORCHELASTIC_RUN_ID" in os.environ and sys.platform == "linux":
        # Otherwise, they train on beside those that are started in their place.
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)

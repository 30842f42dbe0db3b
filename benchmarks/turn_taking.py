"""The part of taking turns that runs in a measuring process; workers.py is the parent's part."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import time
from collections.abc import Mapping

import torch

PR_SET_PDEATHSIG = 1  # <sys/prctl.h>
RESET_PEAK = "5"  # proc(5), /proc/PID/clear_refs
MIB = 2**20


class Channel:
    """Orders come in on standard input, answers go out on what was standard output.

    Anything else that this process prints goes to standard error. It dies with its parent.
    """

    def __init__(self) -> None:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        self._answers = os.fdopen(os.dup(1), "w", buffering=1)
        os.dup2(2, 1)

    def order(self) -> dict:
        """Wait for an order; without anyone to give one the process ends here."""
        line = sys.stdin.readline()
        if not line:
            os._exit(0)
        return json.loads(line)

    def answer(self, content: Mapping[str, object]) -> None:
        """Answer an order, or say that the process is ready for one."""
        self._answers.write(f"{json.dumps(content)}\n")


class Cpu:
    """Memory is the resident set of this process, as the kernel counts it."""

    name = "cpu"

    def finish(self) -> None:
        """Nothing is done later on a CPU."""

    def forget_peak(self) -> None:
        """Let the peak begin at what is resident."""
        with open("/proc/self/clear_refs", "w") as file:
            file.write(RESET_PEAK)

    def memory(self) -> dict[str, float]:
        """MiB: "peak_mib" since `forget_peak`, "held_mib" now."""
        with open("/proc/self/status") as file:
            fields = dict(line.split(":", 1) for line in file)
        names = {"peak_mib": "VmHWM", "held_mib": "VmRSS"}
        return {name: int(fields[field].split()[0]) / 1024 for name, field in names.items()}


class Cuda:
    """Memory is what tensors take, by PyTorch's count."""

    name = "cuda"

    def finish(self) -> None:
        """Wait for the kernels."""
        torch.cuda.synchronize()

    def forget_peak(self) -> None:
        """Let the peak begin at what is allocated."""
        torch.cuda.reset_peak_memory_stats()

    def memory(self) -> dict[str, float]:
        """MiB: "peak_mib" since `forget_peak`, "held_mib" now."""
        peak, held = torch.cuda.max_memory_allocated(), torch.cuda.memory_allocated()
        return {"peak_mib": peak / MIB, "held_mib": held / MIB}


Device = Cpu | Cuda


def find_device(name: str) -> Device:
    """Return the device called cpu or cuda; without a GPU, on which fairseq would go on on the CPU,
    the process ends with one line."""
    if name == "cuda" and not torch.cuda.is_available():
        raise SystemExit("--device cuda: PyTorch finds no GPU")
    return Cuda() if name == "cuda" else Cpu()


class Watch:
    """Seconds and memory from its making to `read`, with everything done on the device."""

    def __init__(self, device: Device):
        self._device = device
        device.finish()
        device.forget_peak()
        self._started = time.monotonic()

    def read(self) -> dict[str, float]:
        """{"seconds", "peak_mib", "held_mib"}."""
        self._device.finish()
        return {"seconds": time.monotonic() - self._started, **self._device.memory()}

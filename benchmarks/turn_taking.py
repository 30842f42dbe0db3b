"""The part of taking turns that runs in a measuring process; workers.py is the parent's part."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import time
from collections.abc import Mapping
from typing import Protocol

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


class Device(Protocol):
    """What measuring time and memory needs to know about a device."""

    name: str

    def finish(self) -> None:
        """Wait until everything that was begun is done."""

    def forget_peak(self) -> None:
        """Start measuring the peak memory anew."""

    def memory(self) -> dict[str, float]:
        """MiB: "peak_mib" since it began, "held_mib" now."""


class Cpu:
    """Memory is the resident set of this process, as the kernel counts it."""

    name = "cpu"

    def finish(self) -> None:
        """Nothing is done later on a CPU."""

    def forget_peak(self) -> None:
        """The kernel's high-water mark begins at what is resident."""
        with open("/proc/self/clear_refs", "w") as file:
            file.write(RESET_PEAK)

    def memory(self) -> dict[str, float]:
        """VmHWM and VmRSS of /proc/self/status."""
        with open("/proc/self/status") as file:
            fields = dict(line.split(":", 1) for line in file)
        names = {"peak_mib": "VmHWM", "held_mib": "VmRSS"}
        return {name: int(fields[field].split()[0]) / 1024 for name, field in names.items()}


class Cuda:
    """Memory is what tensors take, by PyTorch's count."""

    name = "cuda"

    def __init__(self) -> None:
        """Raises ValueError without a GPU: fairseq would go on without one, on the CPU."""
        if not torch.cuda.is_available():
            raise ValueError("--device cuda: PyTorch finds no GPU")

    def finish(self) -> None:
        """Wait for the kernels."""
        torch.cuda.synchronize()

    def forget_peak(self) -> None:
        """The peak begins at what is allocated."""
        torch.cuda.reset_peak_memory_stats()

    def memory(self) -> dict[str, float]:
        """max_memory_allocated and memory_allocated."""
        peak, held = torch.cuda.max_memory_allocated(), torch.cuda.memory_allocated()
        return {"peak_mib": peak / MIB, "held_mib": held / MIB}


def find_device(name: str) -> Device:
    """Return the device called cpu or cuda; raises ValueError if it is not available."""
    return Cuda() if name == "cuda" else Cpu()


def find_device_or_exit(name: str) -> Device:
    """As `find_device`, but the process ends with one line."""
    try:
        return find_device(name)
    except ValueError as error:
        raise SystemExit(str(error)) from None


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

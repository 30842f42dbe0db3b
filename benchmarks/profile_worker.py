"""A system that says which of PyTorch's operations a training step or a search spends its time in.

    python benchmarks/profile_worker.py cpu OPTIONS...    (fairseq-train's; profile_step.py)

Orders are scaling_worker.py's; the answer has the milliseconds and the calls of each operation, its
own alone, and the milliseconds of the whole work without the profiler.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import torch
from scaling_worker import System, seconds
from torch.profiler import ProfilerActivity, profile
from turn_taking import Channel, Device, find_device_or_exit

REPEATS = 4
ACTIVITIES = {"cpu": [ProfilerActivity.CPU], "cuda": [ProfilerActivity.CPU, ProfilerActivity.CUDA]}


def operations(device: Device, work: Callable[[], object]) -> dict[str, list[float]]:
    """[milliseconds, calls] of every operation that the work takes, once."""
    with profile(activities=ACTIVITIES[device.name]) as profiler:
        for _ in range(REPEATS):
            work()
        device.finish()
    own_time = "self_cpu_time_total" if device.name == "cpu" else "self_device_time_total"
    return {
        event.key: [getattr(event, own_time) / 1000 / REPEATS, event.count / REPEATS]
        for event in profiler.key_averages()
        if getattr(event, own_time)
    }


def main() -> None:
    channel = Channel()
    device = find_device_or_exit(sys.argv[1])
    torch.set_num_threads(1)  # the time of an operation is then its work, whoever else computes
    system = System(device, sys.argv[2:])
    while True:
        work = system.work(channel.order())
        work()
        whole = 1000 * seconds(device, work)
        channel.answer({"milliseconds": whole, "operations": operations(device, work)})


if __name__ == "__main__":
    main()

"""What tests have left behind on the machine when they are over."""

import gc
import multiprocessing
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

SOON = 30  # seconds in which a process that was killed is gone
OF_LIBRARIES = ("torchelastic_", "pymp-")  # left by every torchrun, and by readers that are killed


def left_behind(temporary: Path, variables: dict[str, str]) -> list[str]:
    """List the processes whose TMPDIR is this directory, what is in it, ports that this process
    listens to, and environment variables that are others than these."""
    gc.collect()  # a store of torch.distributed listens until then
    deadline = time.monotonic() + SOON
    while (processes := [*processes_of(temporary)]) and time.monotonic() < deadline:
        time.sleep(0.1)
    changed = {*os.environ.items()} ^ {*variables.items()}
    files = [path for path in temporary.iterdir() if not path.name.startswith(OF_LIBRARIES)]
    others = [*files, *multiprocessing.active_children(), *listening()]
    return [*processes, *map(str, others), *(f"{name}={value}" for name, value in changed)]


def processes_of(temporary: Path) -> Iterator[str]:
    """Yield the command line of each process that was started with this TMPDIR."""
    variable = os.fsencode(f"TMPDIR={temporary}")
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is somebody else's
            if variable in (process / "environ").read_bytes().split(b"\0"):
                yield os.fsdecode((process / "cmdline").read_bytes()).replace("\0", " ")


def listening() -> Iterator[str]:
    """Yield the address of each socket on which this process listens."""
    own = {os.path.realpath(file) for file in Path("/proc/self/fd").iterdir()}
    tables = (Path(f"/proc/self/net/{name}") for name in ("tcp", "tcp6"))
    lines = [line for table in tables if table.exists() for line in table.open()]
    for line in lines:
        _, address, _, state, *_ = fields = line.split()
        if state == "0A" and any(name.endswith(f"socket:[{fields[9]}]") for name in own):
            yield address

"""Run commands by the hundred: a process that has imported fairseq and torch forks for each."""

from __future__ import annotations

import importlib
import logging
import os
import pkgutil
import resource
import runpy
import select
import signal
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
NOBODY = 65534
MEMORY = 4 << 30  # bytes of addresses beyond what is imported; nothing here needs a tenth


@dataclass(frozen=True)
class Result:
    """How a command ended."""

    status: int  # negative: the signal that ended it; what hangs is killed
    stdout: bytes
    stderr: str
    hung: bool
    peak_mib: int


def import_everything() -> None:
    """Import what commands import, so that a fork has it; nothing here may start a thread."""
    os.environ |= {"OMP_NUM_THREADS": "1", "PYTHONUTF8": "1", "COLUMNS": "100"}
    sys.path.insert(0, str(ROOT))
    import torch

    torch.set_num_threads(1)
    for name in ("train", "validate", "generate", "interactive", "preprocess"):
        importlib.import_module(f"fairseq_cli.{name}")
    import matplotlib.pyplot  # noqa: F401
    import sacrebleu  # noqa: F401
    import sacremoses  # noqa: F401
    import sentencepiece  # noqa: F401

    import fairseq_aiayn

    for module in pkgutil.walk_packages(fairseq_aiayn.__path__, "fairseq_aiayn."):
        importlib.import_module(module.name)
    logging.getLogger().setLevel(logging.INFO)  # fairseq-preprocess wants to hear of everything


def run(
    command: Sequence[str],
    directory: Path,
    stdin: bytes | None = b"",
    limit: float = 120,
    environment: dict[str, str] | None = None,
    file_mib: float | None = None,
    as_nobody: bool = False,
    closed: Sequence[int] = (),
) -> Result:
    """Run `aiayn ...`, `fairseq-...` or a module of this package, as python -m does.

    It is killed after `limit` seconds. `file_mib` bounds the size of a file that it writes, as a
    full disk does; file descriptors in `closed` are closed. Nothing that it started is left.
    """
    files = {number: directory / name for number, name in enumerate(("stdin", "stdout", "stderr"))}
    files[0].write_bytes(stdin or b"")
    for path in (files[1], files[2]):
        path.write_bytes(b"")
    sys.stdout.flush(), sys.stderr.flush()
    child = os.fork()
    if not child:
        try:
            os.setsid()
            os.chdir(directory)
            for number, path in files.items():
                flags = os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_TRUNC
                opened = os.open(path, flags)
                os.dup2(opened, number)
                os.close(opened)
            for number in closed:
                os.close(number)
            _limit(file_mib)
            if as_nobody:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            os.environ.update(environment or {})
            _reopen_streams()
        except BaseException:  # noqa: BLE001
            traceback.print_exc()
            os._exit(99)
        os._exit(_execute(list(command)))
    hung = not _wait(child, limit)
    _end_session(child)
    _, state, usage = os.wait4(child, 0)
    status = os.waitstatus_to_exitcode(state)
    stderr = files[2].read_bytes().decode(errors="replace")
    return Result(status, files[1].read_bytes(), stderr, hung, usage.ru_maxrss >> 10)


def _limit(file_mib: float | None) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY,) * 2)
    if file_mib is not None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(file_mib * (1 << 20)),) * 2)


def _reopen_streams() -> None:
    """Standard streams as Python makes them at its start: None for those that are closed."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            stream = open(number, "r" if number == 0 else "w", closefd=False)  # noqa: SIM115
        except OSError:
            stream = None
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _execute(command: list[str]) -> int:
    """Run a command as its own process would and return its exit status."""
    try:
        sys.argv = [f"/bin/{command[0]}", *command[1:]]
        if command[0] == "aiayn":
            status = importlib.import_module("fairseq_aiayn.cli.main").main(command[1:])
        elif command[0].startswith("fairseq_aiayn."):
            runpy.run_module(command[0], run_name="__main__", alter_sys=True)
            status = 0
        elif command[0].endswith(".py"):
            runpy.run_path(command[0], run_name="__main__")
            status = 0
        else:
            from fairseq_aiayn.plugin.commands import one_line_for_ours

            sys.excepthook = one_line_for_ours(command[0], sys.excepthook)
            name = command[0].removeprefix("fairseq-").replace("-", "_")
            importlib.import_module(f"fairseq_cli.{name}").cli_main()
            status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        if isinstance(end.code, str) and sys.stderr:
            print(end.code, file=sys.stderr)
    except BaseException as error:  # noqa: BLE001
        sys.excepthook(type(error), error, error.__traceback__)
        status = 1
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream:
                stream.flush()
        except OSError:
            status = status or 120  # as Python ends
    return status


def _wait(child: int, limit: float) -> bool:
    descriptor = os.pidfd_open(child)
    try:
        return bool(select.select([descriptor], [], [], limit)[0])
    finally:
        os.close(descriptor)


def _end_session(child: int) -> None:
    """Kill what is left of a command: itself if it hangs, and what it started."""
    try:
        os.killpg(child, signal.SIGKILL)
    except ProcessLookupError:
        pass

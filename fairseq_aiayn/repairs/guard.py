"""fairseq builds whatever class a checkpoint names, with the checkpoint's options: some evaluate
strings of it as Python, some open files that it names. Here, what is built of a checkpoint may read
dictionaries and installed packages only, and evaluates nothing."""

from __future__ import annotations

import os
import re
import shlex
import sys
import sysconfig
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import fairseq

TRUST = "AIAYN_TRUST"
DICTIONARY = re.compile(r"dict\..*txt")  # of a language, as fairseq names its file
INSTALLED = tuple(
    f"{os.path.realpath(directory)}{os.sep}"
    for directory in (*sysconfig.get_paths().values(), os.path.dirname(str(fairseq.__file__)))
)
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
READING_CODE = ("importlib._bootstrap", "linecache")  # modules of Python
STARTING = ("os.exec", "os.posix_spawn", "os.system", "socket.connect", "subprocess.Popen")


class Guarded(threading.local):
    """What this thread may read at the moment, beside dictionaries and packages."""

    files: set[str] | None = None  # None: it is not guarded
    checkpoint = ""  # which of them something is built of
    refused = ""  # what was asked for
    size = 0  # bytes of the checkpoint that was loaded last


guarded = Guarded()


class AskedForMoreError(ValueError):
    """What is built of a checkpoint asks for what nothing is given unasked."""


@contextmanager
def nothing_unasked(*paths: str) -> Iterator[None]:
    """Let what is built of these checkpoints open no file but them, and evaluate no string. Within
    an untrusted one, a checkpoint that it names is none of them.

    Raises ValueError, with the way out, if it does: AIAYN_TRUST names checkpoints that may do so.
    Python's audit events say what is asked for, so that no list of classes is needed.
    """
    files = {os.path.realpath(path) for path in paths}
    if guarded.files is not None and (files <= guarded.files or not is_trusted()):
        if files <= guarded.files:
            guarded.checkpoint = paths[0]
        yield
        return
    watch()
    before = guarded.files, guarded.checkpoint, guarded.refused
    guarded.files, guarded.checkpoint, guarded.refused = files, "".join(paths[:1]), ""
    try:
        yield
    except Exception as error:  # fairseq may have caught the first one
        if not guarded.refused:
            raise
        name = guarded.checkpoint
        both = os.pathsep.join(filter(None, (os.environ.get(TRUST), name)))
        way_out = f"{TRUST}={shlex.quote(both)}"
        refused = f"{name}: the checkpoint asks to {guarded.refused}"
        raise ValueError(f"{refused}; if you trust it: {way_out}") from error
    finally:
        guarded.files, guarded.checkpoint, guarded.refused = before


def is_trusted() -> bool:
    """Return whether the user trusts the checkpoint of which something is built."""
    value = os.environ.get(TRUST, "")
    trusted = filter(None, (value, *value.split(os.pathsep)))  # a name may have a colon in it
    return os.path.realpath(guarded.checkpoint) in map(os.path.realpath, trusted)


@cache  # once for a process: a hook cannot be taken back
def watch() -> None:
    """Have `judge` called for every audit event."""
    sys.addaudithook(judge)


def judge(event: str, arguments: tuple[Any, ...]) -> None:
    """Raise AskedForMoreError for an event that is not allowed while a checkpoint is built."""
    if guarded.files is None or event not in ("open", "exec", *STARTING) or is_trusted():
        return
    caller = sys._getframe(1)
    if event == "open":
        path, _, flags = arguments
        asked = f"open {os.fsdecode(path)[:80]!r}" if not isinstance(path, int) else ""
        is_harmless = not asked or may_open(os.fsdecode(path), flags)
    elif event == "exec":
        code: CodeType = arguments[0]
        asked = "evaluate a string as Python"
        library = str(caller.f_globals.get("__name__")).partition(".")[0]  # such as dataclasses
        is_harmless = code.co_filename != "<string>" or library in sys.stdlib_module_names
    else:
        asked, is_harmless = event, False
    if not is_harmless and not reads_code(caller):
        guarded.refused = asked
        raise AskedForMoreError(f"the checkpoint asks to {asked}")


def may_open(path: str, flags: int) -> bool:
    """Return whether a checkpoint may have a file opened."""
    real = os.path.realpath(path)
    is_known = real in (guarded.files or ()) or real.startswith(INSTALLED)
    return not flags & WRITING and (is_known or bool(DICTIONARY.fullmatch(Path(path).name)))


def reads_code(frame: FrameType | None) -> bool:
    """Return whether the frame is within an import or a warning, which shows a line of code, that
    began after `nothing_unasked`, which loading.py calls."""
    while frame is not None:
        name = str(frame.f_globals.get("__name__"))
        if name.startswith(READING_CODE):
            return True
        if name == f"{__package__}.loading":
            break
        frame = frame.f_back
    return False

"""Every error of fairseq's commands is a traceback, also one of the user's options or files, and
none says what to change. Here, such an error is one line, and advice follows other errors."""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import wraps
from traceback import walk_tb
from types import TracebackType
from typing import Any

from fairseq_aiayn.console import shortened
from fairseq_aiayn.repairs.advice import advice
from fairseq_aiayn.repairs.program import HYDRA, command_name, given, hydra_names

# What is wrong with a file that an option names; fairseq's own errors have no number
NO_SUCH_FILE = (None, errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EACCES)
OPTION = re.compile(r"--[a-z][a-z\d-]*")
# Functions of fairseq within which an error is none of the options'
WORK = {"train", "validate_and_save", "train_step", "valid_step", "inference_step"}


def of_this_command(excepthook: Callable) -> Callable:
    """Return what `with_last_line` returns for the running command."""
    command = str(command_name(sys.argv[0]))
    if command == HYDRA:  # it shows errors itself unless all of them are asked for
        os.environ["HYDRA_FULL_ERROR"] = "1"
    return with_last_line(command, excepthook, given)


def with_last_line(command: str, previous: Callable, given: Mapping[str, Any]) -> Callable:
    """Return a sys.excepthook that prints `one_line` of an error if there is one. Other errors, and
    with AIAYN_DEBUG=1 all of them, go to the `previous` hook; `advice` on the options that were
    given follows, also in --log-file."""

    @wraps(previous)
    def report(
        kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        short = None if os.environ.get("AIAYN_DEBUG") else short_form(error, trace)
        if short is None:
            previous(kind, error, error.__traceback__)
        line = short or advice(command, error, given)
        if line:
            line = OPTION.sub(lambda found: hydra_names.get(found[0], found[0]), line)
            line = f"{command}: error: {shortened(line)}"
            print(line, file=sys.stderr)
            if short is None and given.get("log_file"):
                with suppress(OSError), open(given["log_file"], "a", encoding="utf-8") as file:
                    print(line, file=file)

    return report


def short_form(error: BaseException, trace: TracebackType | None) -> str | None:
    """Return what to print of a ValueError that this package raised, of Ctrl-C, and of what fairseq
    says of options and files before the work begins; None for other errors."""
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    frames = [frame for frame, _ in walk_tb(trace)]
    raised_in = frames[-1].f_globals.get("__name__", "") if frames else ""
    if isinstance(error, ValueError):
        return str(error) if raised_in.startswith("fairseq_aiayn.") else None
    of_files = isinstance(error, OSError) and error.errno in NO_SUCH_FILE
    of_options = isinstance(error, AssertionError | NotImplementedError)
    if of_files or (of_options and raised_in.partition(".")[0] in ("fairseq", "fairseq_cli")):
        return None if WORK & {frame.f_code.co_name for frame in frames} else str(error) or None
    return None

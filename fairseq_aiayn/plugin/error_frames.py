"""Where an error came from: the command, and the functions that it came through."""

from __future__ import annotations

import os
import traceback
from pathlib import Path


def command_name(program: str) -> str | None:
    """Return fairseq's name of the command started as `program`, None if it is not fairseq's."""
    path = Path(program)
    if path.stem.startswith("fairseq-"):
        return path.stem
    if path.parent.name == "fairseq_cli":  # python -m fairseq_cli.train, torchrun
        return f"fairseq-{path.stem.replace('_', '-')}"
    return None


def file_in(error: BaseException, module: str, function: str, name: str) -> str | None:
    """Return the file that a variable of a function has, where the error came through it."""
    value = variables_in(error, module, function).get(name)
    # A path's own "name" would be the last part of it alone.
    path = value if isinstance(value, str | os.PathLike) else getattr(value, "name", None)
    return os.fspath(path) if isinstance(path, str | os.PathLike) else None


def variables_in(error: BaseException, module: str, function: str) -> dict[str, object]:
    """Return a function's variables where the error came through it, none where it did not."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        if (frame.f_globals.get("__name__"), frame.f_code.co_name) == (module, function):
            return frame.f_locals
    return {}

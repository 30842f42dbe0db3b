"""Find the origin of an error: the command, and the functions that it passed through.

Errors of fairseq and torch rarely name the file or the option at fault, but some function that the
error passed through has it in a variable. For example, `torch.load(f)` of a file that was cut
short raises "PytorchStreamReader failed reading zip archive", which names no file; the traceback
holds the frame of `torch.load`, and its variable `f` is the file.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Mapping
from pathlib import Path

STARTED = ("__main__", "__mp_main__")  # modules that are a program, or its copy in another process


def command_name(program: str) -> str | None:
    """Return the name of the fairseq command that was started as `program`; None for any other
    program."""
    path = Path(program)
    if path.stem.startswith("fairseq-"):
        return path.stem
    if path.parent.name == "fairseq_cli":  # python -m fairseq_cli.train, torchrun
        return f"fairseq-{path.stem.replace('_', '-')}"
    return None


def module_name(names: Mapping[str, object]) -> str:
    """Return the name of the module that has these global names; of a program, the name under which
    it is imported (python -m fairseq_cli.train, torchrun fairseq_cli/train.py)."""
    name = str(names.get("__name__", ""))
    if name not in STARTED:
        return name
    if spec := names.get("__spec__"):
        return spec.name
    file = Path(str(names.get("__file__", "")))
    return f"{file.parent.name}.{file.stem}"


def file_in(error: BaseException, module: str, function: str, name: str) -> str | None:
    """Return the name of the file in a function's variable, if the error passed through the
    function; else None."""
    value = variables_in(error, module, function).get(name)
    # The "name" of a Path would be only its last part.
    path = value if isinstance(value, str | os.PathLike) else getattr(value, "name", None)
    return os.fspath(path) if isinstance(path, str | os.PathLike) else None


def variables_in(error: BaseException, module: str, function: str) -> dict[str, object]:
    """Return the variables of a function if the error passed through it; else an empty dict."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        if (module_name(frame.f_globals), frame.f_code.co_name) == (module, function):
            return frame.f_locals
    return {}

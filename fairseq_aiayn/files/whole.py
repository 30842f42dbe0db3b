"""Files that appear whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO


@contextmanager
def whole_path(path: Path) -> Iterator[Path]:
    """Give a path to write to, whose file becomes `path` when the block ends, or never if that
    fails.

    What a killed run left there is written over. A device or a pipe is never replaced: it is
    written to as it is. Raises OSError where that cannot be.
    """
    if path.exists() and not path.is_file():
        yield path
        return
    path = path.resolve()  # a link stays, what it leads to is replaced
    part = path.with_name(f"{path.name}.part")
    try:
        yield part
        os.replace(part, path)
    except BaseException:
        if part.is_file():
            part.unlink()
        raise


@contextmanager
def whole_file(path: Path) -> Iterator[TextIO]:
    """Open a text file for writing that appears when the block ends, or not at all."""
    with whole_path(path) as part, part.open("w", encoding="utf-8", newline="\n") as file:
        yield file


def write_whole(path: Path, text: str) -> None:
    """Write a text file that appears whole or not at all."""
    with whole_file(path) as file:
        file.write(text)


def require_not_among(
    option: str, output: Path | None, inputs: Iterable[str | os.PathLike]
) -> None:
    """Raise ValueError where an output would take the place of an input."""
    for path in inputs if output is not None and output.exists() else ():
        if Path(path).exists() and output.samefile(path):
            raise ValueError(f"{option} {output}: is what is read, and would be replaced")

"""Write files that appear whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import TextIO


@contextmanager
def whole_path(path: Path) -> Iterator[Path]:
    """Yield a temporary path to write to; its file becomes `path` when the block ends.

    If the block fails, the temporary file is removed. The file of a killed run is overwritten. A
    device or a pipe is never replaced but written to directly. Raises OSError if replacing `path`
    fails.
    """
    if path.exists() and not path.is_file():
        yield path
        return
    path = path.resolve()  # replace the target of a link, not the link
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
    """Open a text file for writing; it appears when the block ends, whole or not at all."""
    with whole_path(path) as part, part.open("w", encoding="utf-8", newline="\n") as file:
        yield file


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file that appears whole or not at all; text becomes UTF-8."""
    with whole_path(path) as part:
        part.write_bytes(content.encode() if isinstance(content, str) else content)


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder, which becomes `path`, readable by everyone, when the block ends; if
    the block fails, it is removed. Raises ValueError if `path` exists."""
    if path.exists():
        raise ValueError(f"{path}: must not exist yet")
    path.parent.mkdir(parents=True, exist_ok=True)
    part = Path(mkdtemp(prefix=f"{path.name}.", suffix=".part", dir=path.parent))
    try:
        yield part
        for file in part.iterdir():
            file.chmod(0o644)  # safetensors and mkdtemp let only their user read
        part.chmod(0o755)
        os.rename(part, path)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise


def require_not_among(
    option: str, output: Path | None, inputs: Iterable[str | os.PathLike]
) -> None:
    """Raise ValueError if an output would replace an input."""
    for path in inputs if output is not None and output.exists() else ():
        if Path(path).exists() and output.samefile(path):
            raise ValueError(f"{option} {output}: is also an input, and would be replaced")

"""Files that appear whole or not at all, and those of a table: Markdown to read, JSON to reuse."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO


def write_table(directory: Path, stem: str, markdown: str, content: Mapping) -> None:
    """Write `stem`.md and `stem`.json into a directory, which is made where it is missing."""
    directory.mkdir(parents=True, exist_ok=True)
    write_whole(directory / f"{stem}.md", markdown)
    text = json.dumps(_finite(content), indent=2, ensure_ascii=False, allow_nan=False)
    write_whole(directory / f"{stem}.json", f"{text}\n")


def _finite(content: object) -> object:
    """Put null in the place of infinities and of what is no number: JSON has neither."""
    if isinstance(content, Mapping):
        return {key: _finite(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


def write_whole(path: Path, text: str) -> None:
    """Write a file that appears whole or not at all."""
    with whole_file(path) as file:
        file.write(text)


@contextmanager
def whole_file(path: Path) -> Iterator[TextIO]:
    """Open a file for writing that appears when the block ends, or not at all if that fails."""
    part = path.with_name(f"{path.name}.part")
    file = part.open("w", encoding="utf-8", newline="\n")
    try:
        with file:
            yield file
        os.replace(part, path)
    except BaseException:
        part.unlink()
        raise

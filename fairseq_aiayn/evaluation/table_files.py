"""A table's files: Markdown to read, JSON to make it again from."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path


def write_table(directory: Path, stem: str, markdown: str, content: Mapping) -> None:
    """Write `stem`.md and `stem`.json into a directory, which is made where it is missing."""
    directory.mkdir(parents=True, exist_ok=True)
    write_whole(directory / f"{stem}.md", markdown)
    write_whole(
        directory / f"{stem}.json", json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    )


def write_whole(path: Path, text: str) -> None:
    """Write a file that appears whole or not at all."""
    part = path.with_name(f"{path.name}.part")
    part.write_text(text, encoding="utf-8")
    os.replace(part, path)

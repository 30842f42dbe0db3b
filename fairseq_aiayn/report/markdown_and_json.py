"""Write a table or a page as two files: Markdown to read, JSON to reuse."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path

from fairseq_aiayn.text import write_whole


def write_markdown_and_json(directory: Path, stem: str, markdown: str, content: Mapping) -> None:
    """Write `stem`.md and `stem`.json into a directory, which is created if it is missing."""
    directory.mkdir(parents=True, exist_ok=True)
    write_whole(directory / f"{stem}.md", markdown)
    text = json.dumps(_finite(content), indent=2, ensure_ascii=False, allow_nan=False)
    write_whole(directory / f"{stem}.json", f"{text}\n")


def _finite(content: object) -> object:
    """Replace infinities and NaN by null, because JSON has neither."""
    if isinstance(content, Mapping):
        return {key: _finite(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content

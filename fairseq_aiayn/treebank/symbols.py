"""Split lines at white space, into words or the symbols of a linearized tree."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from fairseq_aiayn.files.lines import stream_lines

# For use inside [] of a regular expression. No other character separates words, not even a no-break
# space.
WHITE_SPACE = r" \t\r\n\f\v"
ATOM = rf"[^(){WHITE_SPACE}]"  # a character of a label, a tag or a word
SYMBOLS = re.compile(rf"[^{WHITE_SPACE}]+")


def read_symbols(path: str | Path) -> Iterator[list[str]]:
    """Yield the symbols of each line; raises the errors of `stream_lines`."""
    return map(SYMBOLS.findall, stream_lines(path))

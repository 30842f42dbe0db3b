"""Read plain and parallel text, one sentence per line, with exact error messages."""

from __future__ import annotations

import codecs
import sys
import unicodedata
from pathlib import Path

from fairseq_aiayn.files.lines import STANDARD_INPUT, source_name

BREAKING = {"Cc", "Zl", "Zp"}  # Unicode's categories of control characters and separators


def read_lines(path: str | Path) -> list[str]:
    """Return the lines of a UTF-8 file, or of standard input for "-".

    Only "\\n" ends a line: U+2028, U+0085 and the like may occur inside a sentence, and
    `str.splitlines` would shift all later lines. The "\\r" of a Windows line end and a byte order
    mark are dropped. Raises ValueError for bytes that are not UTF-8, OSError if the file cannot be
    read.
    """
    return split_lines(_read_bytes(path), path)


def split_lines(content: bytes, path: str | Path) -> list[str]:
    """Return the lines of a file's content as `read_lines` does; `path` names it in errors."""
    content = content.removeprefix(codecs.BOM_UTF8)
    lines = content.removesuffix(b"\n").split(b"\n") if content else []
    return [
        decode_line(line.removesuffix(b"\r"), path, number)
        for number, line in enumerate(lines, start=1)
    ]


def decode_line(line: bytes, path: str | Path, number: int) -> str:
    """Return a line's text; raises ValueError, with the number and the byte, if it is not UTF-8."""
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{source_name(path)}: line {number}, byte {error.start + 1} "
            f"(0x{line[error.start]:02x}) is not UTF-8"
        ) from None


def read_parallel(first: str | Path, second: str | Path) -> tuple[list[str], list[str]]:
    """Return the lines of two parallel files.

    Raises ValueError if a file has no line or their numbers of lines differ.
    """
    texts = read_lines(first), read_lines(second)
    for path, lines in zip((first, second), texts, strict=True):
        if not lines:
            raise ValueError(f"{source_name(path)}: empty, expected one sentence per line")
    if len(texts[0]) != len(texts[1]):
        raise ValueError(
            f"line counts differ: {source_name(first)} has {len(texts[0])}, "
            f"{source_name(second)} has {len(texts[1])}"
        )
    return texts


def one_line(text: str) -> str:
    """Replace line breaks and control characters by spaces."""
    return "".join(" " if unicodedata.category(c) in BREAKING else c for c in text)


def require_text(path: str | Path, lines: list[str]) -> None:
    """Raise ValueError, with its number, for the first line that is empty or only white space."""
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            raise ValueError(f"{source_name(path)}: line {number} is empty")


def _read_bytes(path: str | Path) -> bytes:
    return sys.stdin.buffer.read() if path == STANDARD_INPUT else Path(path).read_bytes()

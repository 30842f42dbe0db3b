r"""Read the lines of a UTF-8 text file, plain or gzip; only "\n" ends a line."""

from __future__ import annotations

import codecs
import gzip
import sys
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import BinaryIO

STANDARD_INPUT = "-"

LONGEST_LINE = 16 << 20  # bytes; without a limit, a .gz file of 1 MB could be a line of 1 GB


def source_name(path: str | Path) -> str:
    """Return the name of an input for messages."""
    return "standard input" if path == STANDARD_INPUT else str(path)


def require_name(path: str | Path) -> None:
    """Raise ValueError for the name "", as an unset shell variable gives it; Path would take it for
    the current directory."""
    if path == "":
        raise ValueError("the name of a file must not be empty")


def require_plain_file(path: Path) -> None:
    """Raise ValueError unless `path` is a plain file: reading a pipe or a device may never end."""
    if path.exists() and not path.is_file():
        raise ValueError(f"{path}: must be a plain file, is a directory, a pipe or a device")


@contextmanager
def opened(path: str | Path) -> Iterator[Iterator[bytes]]:
    """Open a file and give its lines; "-" is standard input, and a file named *.gz is unpacked."""
    require_name(path)
    if path == STANDARD_INPUT:
        yield bounded_lines(sys.stdin.buffer, LONGEST_LINE)
    else:
        packed = str(path).lower().endswith(".gz")
        if packed and Path(path).is_file() and not Path(path).stat().st_size:
            raise ValueError(f"{path}: cut short or not gzip")  # gzip would give an empty text
        with gzip.open(path) if packed else open(path, "rb") as file:
            yield bounded_lines(file, LONGEST_LINE)


def bounded_lines(file: BinaryIO, longest: int) -> Iterator[bytes]:
    """Yield lines with their line ends; of a longer line, pieces of `longest` + 1 bytes."""
    return iter(partial(file.readline, longest + 1), b"")


def decode_lines(lines: Iterable[bytes], name: str) -> Iterator[str]:
    """Decode UTF-8 and drop the byte order mark; raises ValueError, "NAME:LINE: what is wrong"."""
    number = 1
    try:
        for line in lines:
            if len(line) > LONGEST_LINE:
                raise ValueError(f"{name}:{number}: longer than {LONGEST_LINE:,} bytes")
            if number == 1:
                line = line.removeprefix(codecs.BOM_UTF8)
            yield line.decode("utf-8")
            number += 1
    except UnicodeDecodeError as error:
        byte = f"byte {error.start + 1} (0x{error.object[error.start]:02x})"
        raise ValueError(f"{name}:{number}: {byte} is not UTF-8") from None
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise ValueError(f"{name}:{number}: cut short or not gzip") from None


def stream_lines(path: str | Path) -> Iterator[str]:
    """Yield the lines of a file with their line ends.

    Raises OSError, and ValueError like `decode_lines`.
    """
    with opened(path) as lines:
        yield from decode_lines(lines, source_name(path))

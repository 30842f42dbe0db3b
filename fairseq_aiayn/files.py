"""Read lines and JSON strictly, and write files that appear whole or not at all."""

from __future__ import annotations

import codecs
import gzip
import json
import os
import shutil
import sys
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, TextIO, TypeVar, cast

STANDARD_INPUT = "-"
NOT_GZIP = (EOFError, gzip.BadGzipFile, zlib.error)  # what reading a damaged .gz file raises

Content = TypeVar("Content")


# --- lines of text ----------------------------------------------------------------------------


def read_lines(path: str | Path) -> list[str]:
    """Return the lines of a file as `stream_lines` yields them."""
    return list(stream_lines(path))


def stream_lines(path: str | Path) -> Iterator[str]:
    """Yield the lines of a UTF-8 file, *.gz unpacked, or of standard input for "-"; raises OSError,
    and ValueError like `decode_lines`."""
    if path == STANDARD_INPUT:
        yield from decode_lines(sys.stdin.buffer, source_name(path))
        return
    with open(path, "rb") as file:
        is_packed = str(path).lower().endswith(".gz")
        yield from decode_lines(unpacked(file) if is_packed else file, str(path))


def unpacked(file: IO[bytes]) -> IO[bytes]:
    """Return the content of a *.gz file; reading a damaged one raises one of NOT_GZIP."""
    return cast(IO[bytes], gzip.open(file))


def decode_lines(lines: Iterable[bytes], name: str) -> Iterator[str]:
    """Decode UTF-8 and drop line ends, "\\n" or "\\r\\n", and a byte order mark. No other character
    ends a line: U+2028, U+0085 and the like may occur inside a sentence. Raises ValueError,
    "NAME:LINE: what is wrong", for bytes that are not UTF-8 and for damaged gzip."""
    number = 1
    try:
        for line in lines:
            if number == 1:
                line = line.removeprefix(codecs.BOM_UTF8)
            yield line.removesuffix(b"\n").removesuffix(b"\r").decode()
            number += 1
    except UnicodeDecodeError as error:
        byte = f"byte {error.start + 1} (0x{error.object[error.start]:02x})"
        raise ValueError(f"{name}:{number}: {byte} is not UTF-8") from error
    except NOT_GZIP as error:
        raise ValueError(f"{name}:{number}: cut short or not gzip") from error


def read_line_pairs(first: str | Path, second: str | Path) -> Iterator[tuple[str, str]]:
    """Yield the lines of two parallel files in pairs; one of them may be "-", standard input.
    Raises the errors of `stream_lines`, and ValueError for files without a line and for different
    numbers of lines."""
    names = source_name(first), source_name(second)
    if names[0] == names[1] == source_name(STANDARD_INPUT):
        raise ValueError("expected at most one of two files from standard input, got both")
    number = 0
    for number, lines in enumerate(zip_longest(stream_lines(first), stream_lines(second)), start=1):
        if lines[0] is None or lines[1] is None:
            shorter, longer = names if lines[0] is None else reversed(names)
            expected = f"expected as many lines as in {longer}"
            raise ValueError(f"{shorter}: {expected}, got {number - 1:,}")
        yield lines
    if not number:
        raise ValueError(f"{names[0]}: expected a line for each sentence, got an empty file")


def source_name(path: str | Path) -> str:
    """Return the name of an input for messages."""
    return "standard input" if path == STANDARD_INPUT else str(path)


def require_plain(path: Path) -> None:
    """Raise ValueError for a directory, a pipe or a device: reading one may never end."""
    if path.exists() and not path.is_file():
        raise ValueError(f"{path}: expected a plain file, got a directory, a pipe or a device")


# --- structured data --------------------------------------------------------------------------


def read_json(path: Path) -> object:
    """Read a JSON file; raises OSError if it is unreadable, ValueError if it is not JSON."""
    require_plain(path)
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: expected JSON: {error}") from error


def dataclass_of(content: object, kind: type[Content], where: object) -> Content:
    """Turn a JSON object into a dataclass, with nested dataclasses; unknown keys are ignored.
    Raises ValueError, with `where` and the key, for a value that is missing or has another type:
    "3" is not an int, nor is true."""
    from pydantic import TypeAdapter, ValidationError  # aiayn starts without it

    try:
        return TypeAdapter(kind).validate_json(json.dumps(content, default=str), strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        rule = first["msg"].replace("Input should be", "expected")
        fault = {
            "missing": "missing key",
            "value_error": rule.removeprefix("Value error, "),  # the dataclass itself refuses it
        }.get(first["type"], f"{rule}, got {first['input']!r}")
        place = ".".join(map(str, first["loc"]))
        raise ValueError(": ".join(filter(None, (str(where), place, fault)))) from error


def read_dataclass(kind: type[Content], path: Path) -> Content:
    """Read a JSON file as a dataclass; raises the errors of `read_json` and `dataclass_of`."""
    return dataclass_of(read_json(path), kind, path)


# --- files that appear whole or not at all ----------------------------------------------------


@contextmanager
def whole_path(path: Path) -> Iterator[Path]:
    """Yield a temporary path to write to; its file becomes `path` when the block ends.

    If the block fails, nothing is left. A device or a pipe is never replaced but written to
    directly; of a link, the file it leads to is replaced. Raises OSError, with `path`, if nothing
    can be written there.
    """
    if path.exists() and not path.is_file():
        yield path
        return
    path = path.resolve()
    with _new_folder_beside(path) as folder:
        yield folder / path.name
        if path.exists():
            shutil.copymode(path, folder / path.name)
        os.replace(folder / path.name, path)


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
    if os.path.lexists(path):  # a link that leads nowhere, too
        raise ValueError(f"{path}: must not exist yet")
    path.parent.mkdir(parents=True, exist_ok=True)
    with _new_folder_beside(path) as folder:
        part = folder / path.name
        part.mkdir()
        yield part
        for file in (part, *part.rglob("*")):  # safetensors lets only their user read
            file.chmod(0o755 if file.is_dir() else 0o644)
        os.rename(part, path)


@contextmanager
def _new_folder_beside(path: Path) -> Iterator[Path]:
    """Yield a new folder, in which no file of the user can be, and remove it at the end; an OSError
    of a file in it names `path`. A recipe that calls the command gives its own folder for this,
    which it empties after a kill."""
    folder, parts = "", os.environ.get("AIAYN_PARTS", "")
    try:
        is_near = os.path.isdir(parts) and os.stat(parts).st_dev == path.parent.stat().st_dev
        where = parts if is_near else path.parent
        with TemporaryDirectory(prefix="aiayn-", suffix=".part", dir=where) as name:
            folder = str(Path(name))
            yield Path(folder)
    except OSError as error:
        if str(error.filename).startswith(folder):
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise


def require_not_among(
    option: str, output: Path | None, inputs: Iterable[str | os.PathLike]
) -> None:
    """Raise ValueError if an output would replace an input."""
    for path in map(Path, inputs):
        if output and output.exists() and path.exists() and output.samefile(path):
            raise ValueError(f"{option} {output}: is also an input, and would be replaced")

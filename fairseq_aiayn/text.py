"""Messages of one short line, and scripts that end with one."""

from __future__ import annotations

import codecs
import gzip
import json
import multiprocessing
import os
import signal
import sys
import threading
import unicodedata
import zlib
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import MISSING, fields, is_dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO, TextIO, TypeVar, get_args, get_origin, get_type_hints

LONGEST_MESSAGE = 300  # characters; a message may quote a name or a file's content of any length


def shortened(message: str) -> str:
    """Return a message on one line; a long one is reduced to its beginning and its end."""
    line = " ".join(message.splitlines())
    half = LONGEST_MESSAGE // 2
    return line if len(line) <= LONGEST_MESSAGE else f"{line[:half]} ... {line[-half:]}"


@contextmanager
def one_line_errors(script: str) -> Iterator[None]:
    """End a script with status 1 and one line, which begins with the script's name, if its input
    or files raise ValueError or OSError."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise SystemExit(f"{script}: {shortened(str(error))}") from None


@contextmanager
def script(description: str) -> Iterator[ArgumentParser]:
    """Yield the parser of a script, whose help is its docstring; the block reads the options and
    does the work. An error in it ends the script as in `one_line_errors`."""
    parser = ArgumentParser(description=description, formatter_class=RawDescriptionHelpFormatter)
    with one_line_errors(parser.prog.removesuffix(".py")):
        yield parser


@contextmanager
def optional(*packages: str) -> Iterator[None]:
    """Turn a failing import of optional packages into a ValueError with the line that installs
    them."""
    try:
        yield
    except ImportError as error:
        raise ValueError(
            f"{error.name or packages[0]} is needed for this: pip install {' '.join(packages)}"
        ) from None


# Read the lines of a UTF-8 text file, plain or gzip; only "\n" ends a line.


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


# Read plain and parallel text, one sentence per line, with exact error messages.


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


# Format tables in plain text, for terminals and logs.


def aligned_lines(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return one line per row: the first column aligned to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if place else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


# Write files that appear whole or not at all.


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
        os.replace(folder / path.name, path)


@contextmanager
def _new_folder_beside(path: Path) -> Iterator[Path]:
    """Yield a new folder, in which no file of the user can be, and remove it at the end."""
    try:
        folder = TemporaryDirectory(prefix="aiayn-", suffix=".part", dir=path.parent)
    except OSError as error:
        error.filename = str(path)
        raise
    with folder as name:
        yield Path(name)


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
    with _new_folder_beside(path) as folder:
        part = folder / path.name
        part.mkdir()
        yield part
        for file in part.iterdir():
            file.chmod(0o644)  # safetensors lets only their user read
        part.chmod(0o755)
        os.rename(part, path)


def require_not_among(
    option: str, output: Path | None, inputs: Iterable[str | os.PathLike]
) -> None:
    """Raise ValueError if an output would replace an input."""
    for path in inputs if output is not None and output.exists() else ():
        if Path(path).exists() and output.samefile(path):
            raise ValueError(f"{option} {output}: is also an input, and would be replaced")


# Read JSON files, and turn their content into dataclasses.


Kind = TypeVar("Kind")


def read_json(path: Path) -> object:
    """Read a JSON file; raises OSError if it is unreadable, ValueError if it is not JSON."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError):
        raise ValueError(f"{path}: must be JSON, is not or is cut short") from None


def dataclass_of(content: object, kind: type[Kind], where: object) -> Kind:
    """Turn a JSON object into a dataclass, with nested dataclasses; unknown keys are ignored.

    Raises ValueError, with `where`, for a value that is missing or has the wrong type.
    """
    if not isinstance(content, Mapping):
        raise ValueError(f"{where}: must be an object, got {content!r}")
    for field in fields(kind):
        needed = field.default is MISSING and field.default_factory is MISSING
        if needed and field.name not in content:
            raise ValueError(f"{where}: must have {field.name!r}, has not")
    kinds = get_type_hints(kind)
    values = {key: _value(content[key], kinds[key], where, key) for key in kinds if key in content}
    return kind(**values)


def _value(value: object, kind: type, where: object, key: object) -> object:
    place, origin, parts = f"{where}: {key!r}", get_origin(kind), get_args(kind)
    if origin in (dict, tuple):  # dict[str, X], tuple[X, ...]
        kind = dict if origin is dict else list | tuple
    elif nested := next((one for one in (kind, *parts) if is_dataclass(one)), None):
        is_left_out = value is None and isinstance(None, kind)
        return None if is_left_out else dataclass_of(value, nested, place)
    kind = int | float if kind is float else kind
    is_odd = isinstance(value, bool) and kind in (int, int | float)  # to Python, True is a number
    if not isinstance(value, kind) or is_odd:
        name = getattr(kind, "__name__", str(kind)).replace(" | None", "").replace(" | ", " or ")
        raise ValueError(f"{place} must be {name}, got {value!r}")
    if origin is dict:
        return {name: _value(one, parts[1], place, name) for name, one in value.items()}
    if origin is tuple:
        return tuple(_value(one, parts[0], place, number) for number, one in enumerate(value, 1))
    return value


# Work for several processes, which end with the process that started them.


Task = TypeVar("Task")
Result = TypeVar("Result")

TASKS_PER_WORKER = 3  # one running, the others waiting, or done and waiting for an earlier one


def in_order(
    function: Callable[[Task], Result], tasks: Iterable[Task], workers: int
) -> Iterator[Result]:
    """Yield the result of `function` for each task, which `workers` processes compute.

    Tasks are drawn only as workers need them, so that few are in memory at a time. After the first
    error of a task, or of drawing one, tasks that have not begun are dropped. Raises OSError if a
    worker is killed, ValueError for less than one worker.
    """
    if workers < 1:
        raise ValueError(f"workers must be at least 1, got {workers}")
    # Otherwise each process gets a copy of the unflushed output, and prints it when it ends.
    sys.stdout.flush()
    pool = ProcessPoolExecutor(workers, initializer=end_with_parent)
    running: deque[Future[Result]] = deque()
    try:
        for task in tasks:
            running.append(pool.submit(function, task))
            if len(running) == TASKS_PER_WORKER * workers:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()
    except BrokenProcessPool:
        raise OSError("a worker process was killed; is there too little memory?") from None
    finally:
        pool.shutdown(cancel_futures=True)


def end_with_parent() -> None:
    """Make this worker process ignore Ctrl-C, which its parent handles, and exit with its parent.

    A worker whose parent was killed would otherwise wait forever, or write files that the next run
    uses.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()

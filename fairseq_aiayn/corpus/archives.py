"""Read the lines of a text, in an archive or not, without unpacking it to disk."""

from __future__ import annotations

import codecs
import gzip
import io
import tarfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO

from fairseq_aiayn.corpus.manifest import Location
from fairseq_aiayn.text import NOT_GZIP

BUFFER_BYTES = 1 << 20
NAMES_SHOWN = 5


def open_lines(directory: Path, location: Location) -> Iterator[bytes]:
    """Yield the lines of a text in `directory`, without their line ends.

    Only "\\n" ends a line; the "\\r" before it and a byte order mark at the start are dropped. Each
    call reads the archive anew, up to the end of the member, in constant memory. Raises OSError for
    a missing file, ValueError for a missing member or a damaged archive; an error may come after
    some lines.
    """
    path = directory / location.file
    try:
        with _open_text(path, location.member) as stream:
            if first := stream.readline().removeprefix(codecs.BOM_UTF8):
                yield first.removesuffix(b"\n").removesuffix(b"\r")
            for line in stream:
                yield line.removesuffix(b"\n").removesuffix(b"\r")
    except (tarfile.TarError, *NOT_GZIP) as error:
        raise ValueError(f"{path}: is cut short or not a gzip/tar archive") from error


@contextmanager
def _open_text(path: Path, member: str | None) -> Iterator[BinaryIO]:
    with ExitStack() as opened:
        stream = opened.enter_context(path.open("rb", buffering=BUFFER_BYTES))
        if path.suffix in (".gz", ".tgz"):
            stream = opened.enter_context(_gunzip(stream))
        if member is not None:
            # Finding and reading a member only moves forward, so that gzip is unpacked once.
            archive = opened.enter_context(tarfile.open(fileobj=stream, mode="r:"))
            stream = opened.enter_context(_find_member(archive, stream, member, path))
            if member.endswith(".gz"):
                stream = opened.enter_context(_gunzip(stream))
        yield opened.enter_context(io.BufferedReader(stream, BUFFER_BYTES))


def _gunzip(stream: io.BufferedReader) -> gzip.GzipFile:
    if not stream.peek(1):
        raise EOFError  # gzip would take an empty file for an empty text
    return gzip.GzipFile(fileobj=stream, mode="rb")


def _find_member(
    archive: tarfile.TarFile, stream: BinaryIO, wanted: str, path: Path
) -> io.BufferedReader:
    names = []
    for entry in archive:
        if entry.isreg():
            names.append(entry.name.removeprefix("./"))
            if names[-1] == wanted.removeprefix("./"):
                return archive.extractfile(entry)
    # tarfile takes a damaged header for the end of the archive: look for the real end.
    stream.seek(archive.offset)
    if stream.read(tarfile.BLOCKSIZE) != tarfile.NUL * tarfile.BLOCKSIZE:
        raise tarfile.ReadError
    shown = ", ".join(names[:NAMES_SHOWN]) + (", ..." if len(names) > NAMES_SHOWN else "")
    raise ValueError(f"{path}: must have a member {wanted}, has none (it has: {shown or 'none'})")

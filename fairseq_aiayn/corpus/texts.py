"""Read texts where they lie, in archives and SGML; write a corpus's validation and test set.

Both sets are the references of BLEU, so nothing is cleaned: text that cannot be scored is an error.
--lowercase writes lower-cased references, for models that write lower-cased text.

    python -m fairseq_aiayn.corpus.texts --manifest corpus.toml --directory downloads \
        --source-lang en --target-lang de --output data
"""

from __future__ import annotations

import codecs
import html
import re
import sys
import tarfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from html.entities import html5
from pathlib import Path
from typing import IO

from fairseq_aiayn.corpus.manifest import Location, Text, add_manifest_options, read_manifest
from fairseq_aiayn.text import (
    NOT_GZIP,
    decode_lines,
    require_text,
    script,
    unpacked,
    write_whole,
)

BUFFER_BYTES = 1 << 20

# WMT's test sets come as SGML
SEGMENT = re.compile(
    r"<seg(?:\s[^>]*)?>(?P<text>.*?)(?P<end></seg\s*>|(?=<seg[\s>])|\Z)", re.IGNORECASE | re.DOTALL
)
ENTITY = re.compile(r"&(?:#\w+|(?P<name>\w+));")
# ASCII only: French no-break spaces belong to the text.
WHITE_SPACE = re.compile(r"[ \t\n\r\f\v]+")


def open_lines(directory: Path, location: Location) -> Iterator[bytes]:
    """Yield the lines of a text in `directory` without line ends; nothing is unpacked to disk.

    Each call reads the archive anew, up to the end of the member, in constant memory. Raises
    OSError for a missing file, ValueError for a missing member or a damaged archive; an error may
    come after some lines.
    """
    path = directory / location.file
    try:
        with _open_text(path, location.member) as stream:
            for number, line in enumerate(stream):
                line = line if number else line.removeprefix(codecs.BOM_UTF8)
                yield line.removesuffix(b"\n").removesuffix(b"\r")
    except (tarfile.TarError, *NOT_GZIP) as error:
        raise ValueError(f"{path}: is cut short or not a gzip/tar archive") from error


@contextmanager
def _open_text(path: Path, member: str | None) -> Iterator[IO[bytes]]:
    with ExitStack() as opened:
        stream: IO[bytes] = opened.enter_context(path.open("rb", buffering=BUFFER_BYTES))
        if path.suffix in (".gz", ".tgz"):
            stream = unpacked(stream)
        if member is not None:
            # Finding and reading a member only moves forward, so that gzip is unpacked once.
            archive = opened.enter_context(tarfile.open(fileobj=stream, mode="r:"))
            stream = _find_member(archive, member, path)
            if member.endswith(".gz"):
                stream = unpacked(stream)
        yield stream


def _find_member(archive: tarfile.TarFile, wanted: str, path: Path) -> IO[bytes]:
    names = []
    for entry in archive:
        if entry.isreg() and (member := archive.extractfile(entry)):
            names.append(entry.name.removeprefix("./"))
            if names[-1] == wanted.removeprefix("./"):
                return member
    raise ValueError(f"{path}: expected a member {wanted}, got {', '.join(names) or 'none'}")


def read_pair(directory: Path, text: Text, languages: tuple[str, str]) -> list[list[str]]:
    """Return the sentences of both sides.

    Raises the errors of `read_sentences`, and ValueError for a number of sentences that differs
    from the manifest's or the other side's.
    """
    sides = text.sides(languages)
    pair = [read_sentences(directory, location) for location in sides]
    expected = text.sentences or len(pair[0])
    for location, lines in zip(sides, pair, strict=True):
        if len(lines) != expected:
            name = _name(directory, location)
            raise ValueError(f"{name}: expected {expected:,} sentences, got {len(lines):,}")
    return pair


def read_sentences(directory: Path, location: Location) -> list[str]:
    """Return the sentences of one side: its lines or, for SGML, its segments.

    Raises ValueError, with file and member, for text that is not UTF-8, and if there is no sentence
    or an empty one.
    """
    name = _name(directory, location)
    lines = list(decode_lines(open_lines(directory, location), name))
    if (location.member or location.file).endswith((".sgm", ".sgm.gz")):
        lines = read_segments("\n".join(lines), name)
    if not lines:
        raise ValueError(f"{name}: expected sentences, got none")
    require_text(name, lines)
    return lines


def read_segments(text: str, name: str) -> list[str]:
    """Return the text of each <seg> as one line, with its entities replaced.

    Raises ValueError, with `name`, if a segment is not closed.
    """
    segments = []
    for number, segment in enumerate(SEGMENT.finditer(text), start=1):
        if not segment["end"]:
            raise ValueError(f"{name}: expected </seg> after segment {number}, got none")
        # Entities come first: they may stand for white space.
        line = ENTITY.sub(_character, segment["text"])
        segments.append(WHITE_SPACE.sub(" ", line).strip(" "))
    return segments


def _name(directory: Path, location: Location) -> str:
    return ": ".join(filter(None, (str(directory / location.file), location.member)))


def _character(entity: re.Match[str]) -> str:
    """Replace an entity if it is complete and known; html.unescape alone replaces "&para", too."""
    known = entity["name"] is None or f"{entity['name']};" in html5
    return html.unescape(entity[0]) if known else entity[0]


def main() -> None:
    with script(__doc__) as parser:
        add_manifest_options(parser)
        parser.add_argument("--directory", type=Path, required=True, help="the manifest's files")
        parser.add_argument("--lowercase", action="store_true")
        parser.add_argument("--output", type=Path, required=True)
        arguments = parser.parse_args()
        languages = arguments.source_lang, arguments.target_lang
        manifest = read_manifest(arguments.manifest)
        texts = {"valid": manifest.valid, "test": manifest.test}
        pairs = {
            split: read_pair(arguments.directory, text, languages) for split, text in texts.items()
        }
        arguments.output.mkdir(parents=True, exist_ok=True)
        for split, pair in pairs.items():
            for language, lines in zip(languages, pair, strict=True):
                content = "".join(f"{line}\n" for line in lines)
                content = content.lower() if arguments.lowercase else content
                write_whole(arguments.output / f"{split}.{language}", content)
            print(f"{split}: {len(pair[0]):,} sentences of {texts[split].name}", file=sys.stderr)


if __name__ == "__main__":
    main()

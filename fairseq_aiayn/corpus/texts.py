"""Read texts where they lie, in archives and SGML; write a corpus's validation and test set.

Both sets are the references of BLEU, so nothing is cleaned: text that cannot be scored is an error.
--lowercase writes lower-cased references, for models that write lower-cased text.

    python -m fairseq_aiayn.corpus.texts --manifest corpus.toml --directory downloads \
        --source-lang en --target-lang de --output data
"""

from __future__ import annotations

import html
import re
import sys
import tarfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from html.entities import html5
from itertools import zip_longest
from pathlib import Path
from typing import IO

from fairseq_aiayn.console import script
from fairseq_aiayn.corpus.manifest import Location, Text, add_manifest_options, read_manifest
from fairseq_aiayn.files import NOT_GZIP, decode_lines, unpacked, write_whole

LinePair = tuple[bytes, bytes]

# WMT's test sets come as SGML
SEGMENT = re.compile(r"<seg(?:\s[^>]*)?>(.*?)</seg\s*>", re.IGNORECASE | re.DOTALL)
ENTITY = re.compile(r"&(?:#\w+|(?P<name>\w+));")
# ASCII only: French no-break spaces belong to the text.
SEPARATORS = re.compile(r"[ \t\n\r\f\v]+")


def read_pairs(directory: Path, text: Text, languages: tuple[str, str]) -> Iterator[LinePair]:
    """Yield the pairs of a text; raises what `open_lines` does, and ValueError after the last pair
    if there is none, if one side has more lines, or if the manifest has another number."""
    count = 0
    sides = [open_lines(directory, side) for side in text.sides(languages)]
    for source, target in zip_longest(*sides):
        if source is None or target is None:
            short = languages[target is None]
            raise ValueError(f"{text.name}: expected parallel lines, got only {count:,} in {short}")
        yield source, target
        count += 1
    if not count or count != (text.sentences or count):
        expected = f"{text.sentences:,} sentences" if text.sentences else "sentences"
        raise ValueError(f"{text.name}: expected {expected}, got {count:,}")


def open_lines(directory: Path, location: Location) -> Iterator[bytes]:
    """Yield the lines of a text in `directory`, with their ends, or the segments of SGML, in
    constant memory; raises OSError for a missing file, ValueError for a missing member, a damaged
    archive or SGML that is not UTF-8, perhaps after some lines."""
    path = directory / location.file
    try:
        with _open_text(path, location.member) as stream:
            name = str(path / (location.member or ""))
            is_sgml = name.endswith((".sgm", ".sgm.gz"))
            yield from segments("\n".join(decode_lines(stream, name))) if is_sgml else stream
    except (tarfile.TarError, *NOT_GZIP) as error:
        raise ValueError(f"{path}: is cut short or not a gzip/tar archive") from error


@contextmanager
def _open_text(path: Path, member: str | None) -> Iterator[IO[bytes]]:
    with ExitStack() as opened:
        stream: IO[bytes] = opened.enter_context(path.open("rb", buffering=1 << 20))
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


def segments(text: str) -> Iterator[bytes]:
    """Yield the text of each <seg> as one line, with its entities replaced."""
    for segment in SEGMENT.findall(text):
        # Entities come first: they may stand for white space.
        yield SEPARATORS.sub(" ", ENTITY.sub(_character, segment)).strip(" ").encode()


def _character(entity: re.Match[str]) -> str:
    """Replace an entity if it is complete and known; html.unescape alone replaces "&para", too."""
    known = entity["name"] is None or f"{entity['name']};" in html5
    return html.unescape(entity[0]) if known else entity[0]


def read_set(directory: Path, text: Text, languages: tuple[str, str]) -> list[list[str]]:
    """Return the sentences of both sides; raises the errors of `read_pairs`, and ValueError for
    text that is not UTF-8 and for an empty sentence."""
    pair = []
    for language, side in zip(
        languages, zip(*read_pairs(directory, text, languages), strict=True), strict=True
    ):
        name = f"{text.name}, {language}"
        pair.append([*decode_lines(side, name)])
        for number, line in enumerate(pair[-1], start=1):
            if not line.strip():
                raise ValueError(f"{name}:{number}: expected a sentence, got an empty line")
    return pair


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
            split: read_set(arguments.directory, text, languages) for split, text in texts.items()
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

"""Write a corpus's development and test set as plain text, each sentence unchanged.

They are the references of BLEU, so nothing is cleaned: text that cannot be scored is an error.
--lowercase writes lower-cased references, for models that write lower-cased text.

    python -m fairseq_aiayn.corpus.held_out --manifest corpus.toml --directory downloads \
        --source-lang en --target-lang de --output data
"""

from __future__ import annotations

import html
import re
import sys
from contextlib import ExitStack
from html.entities import html5
from pathlib import Path

from fairseq_aiayn.corpus.archives import open_lines
from fairseq_aiayn.corpus.manifest import Location, Text, add_manifest_options, read_manifest
from fairseq_aiayn.text import decode_lines, require_text, script, whole_file

# WMT's test sets come as SGML
SEGMENT = re.compile(
    r"<seg(?:\s[^>]*)?>(?P<text>.*?)(?P<end></seg\s*>|(?=<seg[\s>])|\Z)", re.IGNORECASE | re.DOTALL
)
ENTITY = re.compile(r"&(?:#\w+|(?P<name>\w+));")
# ASCII only: French no-break spaces belong to the text.
WHITE_SPACE = re.compile(r"[ \t\n\r\f\v]+")


def read_pair(directory: Path, text: Text) -> tuple[list[str], list[str]]:
    """Return the sentences of both sides.

    Raises ValueError, with file and member, for text that is not UTF-8, for empty sentences and for
    a number of sentences that differs from the manifest's or the other side's.
    """
    locations = text.source, text.target
    source, target = (read_sentences(directory, location) for location in locations)
    for location, lines in zip(locations, (source, target)):
        if len(lines) != (text.sentences or len(lines)):
            raise ValueError(
                f"{_name(directory, location)}: must have {text.sentences:,} sentences, "
                f"has {len(lines):,}"
            )
    if len(source) != len(target):
        raise ValueError(
            f"{_name(directory, text.source)} and {_name(directory, text.target)} must have "
            f"equally many sentences, have {len(source):,} and {len(target):,}"
        )
    return source, target


def read_sentences(directory: Path, location: Location) -> list[str]:
    """Return the sentences of one side: its lines or, for SGML, its segments.

    Raises ValueError, with file and member, if there is no sentence or an empty one.
    """
    name = _name(directory, location)
    lines = list(decode_lines(open_lines(directory, location), name))
    if (location.member or location.file).endswith((".sgm", ".sgm.gz")):
        try:
            return read_segments("\n".join(lines))
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    if not lines:
        raise ValueError(f"{name}: must have sentences, has none")
    require_text(name, lines)
    return lines


def write_texts(output: Path, texts: dict[str, list[str]]) -> None:
    """Write each text to `output` under its name; none appears before all are written."""
    output.mkdir(parents=True, exist_ok=True)
    with ExitStack() as unfinished:
        for name, lines in texts.items():
            file = unfinished.enter_context(whole_file(output / name))
            file.writelines(f"{line}\n" for line in lines)


def read_segments(text: str) -> list[str]:
    """Return the text of each <seg> as one line, with its entities replaced.

    Raises ValueError if there is no segment, or if one is empty or not closed.
    """
    segments = []
    for number, segment in enumerate(SEGMENT.finditer(text), start=1):
        if not segment["end"]:
            raise ValueError(f"segment {number} must end with </seg>, does not")
        # Entities come first: they may stand for white space.
        line = ENTITY.sub(_character, segment["text"])
        segments.append(WHITE_SPACE.sub(" ", line).strip(" "))
        if not segments[-1].strip():
            raise ValueError(f"segment {number} is empty")
    if not segments:
        raise ValueError("must have segments <seg>...</seg>, has none")
    return segments


def _character(entity: re.Match[str]) -> str:
    """Replace an entity if it is complete and known; html.unescape alone replaces "&para", too."""
    known = entity["name"] is None or f"{entity['name']};" in html5
    return html.unescape(entity[0]) if known else entity[0]


def _name(directory: Path, location: Location) -> str:
    path = directory / location.file
    return f"{path}: {location.member}" if location.member else str(path)


def main() -> None:
    with script(__doc__) as parser:
        add_manifest_options(parser)
        parser.add_argument("--directory", type=Path, required=True, help="the manifest's files")
        parser.add_argument("--lowercase", action="store_true")
        parser.add_argument("--output", type=Path, required=True)
        arguments = parser.parse_args()
        languages = arguments.source_lang, arguments.target_lang
        texts = {}
        manifest = read_manifest(arguments.manifest, *languages)
        for split, text in (("valid", manifest.valid), ("test", manifest.test)):
            pair = read_pair(arguments.directory, text)
            if arguments.lowercase:
                pair = tuple([line.lower() for line in lines] for lines in pair)
            texts |= {f"{split}.{lang}": lines for lang, lines in zip(languages, pair)}
            print(f"{split}: {len(pair[0]):,} sentences of {text.name}", file=sys.stderr)
        write_texts(arguments.output, texts)


if __name__ == "__main__":
    main()

"""The manifest of a corpus: the files to download and the place of each text in them.

A corpus.toml has a table [downloads."FILE"] for every file (url, size in bytes, sha256 or md5), a
list [[train]] and the tables [valid] and [test]. A text has a name, a file, the member if the file
is an archive, and the number of sentences if it is known. In file and member, {language} stands for
the language and {side} for src or ref. Without [downloads], the files must be there already.

    python -m fairseq_aiayn.corpus.manifest --manifest corpus.toml --source-lang en --target-lang de

prints URL, file, checksum and size, separated by tabs, for each file to download.
"""

from __future__ import annotations

import argparse
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fairseq_aiayn.text import script

ARCHIVES = (".tgz", ".tar.gz", ".tar")
DIGITS_OF = {"sha256": 64, "md5": 32}  # hexadecimal
UNKNOWN = "-"

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True)
class Download:
    """A file and where it comes from."""

    file: str
    url: str
    checksum: str  # "sha256:HEX", "md5:HEX" or "-"
    size: int | None  # bytes


@dataclass(frozen=True)
class Location:
    """The place of one side of a text."""

    file: str
    member: str | None  # of the archive; None if the file itself is the text, plain or gzip


@dataclass(frozen=True)
class Text:
    """One parallel text."""

    name: str
    source: Location
    target: Location
    sentences: int | None


@dataclass(frozen=True)
class Manifest:
    """A corpus in one language pair."""

    downloads: tuple[Download, ...]  # the files that the texts use, in the order of the texts
    train: tuple[Text, ...]
    valid: Text
    test: Text


def read_manifest(path: Path, source_lang: str, target_lang: str) -> Manifest:
    """Read a corpus.toml for one language pair.

    Raises ValueError, with file, table and rule, for a wrong content; OSError for an unreadable
    file.
    """
    if source_lang == target_lang:
        raise ValueError(f"source and target language must differ, got {source_lang} twice")
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: must be TOML: {error}") from None
    languages = source_lang, target_lang
    try:
        _check_keys("the top level", content, ("train", "valid", "test"), ("downloads",))
        if not isinstance(content["train"], list) or not content["train"]:
            raise ValueError("train must be a list of tables [[train]]")
        train = tuple(
            _text(f"train {number}", table, languages)
            for number, table in enumerate(content["train"], start=1)
        )
        valid, test = (_text(split, content[split], languages) for split in ("valid", "test"))
        downloads = _downloads(content.get("downloads"), (*train, valid, test))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    return Manifest(downloads, train, valid, test)


def _text(where: str, table: object, languages: tuple[str, str]) -> Text:
    _check_keys(where, table, ("name", "file"), ("member", "sentences"))
    name = _string(where, table, "name")
    if not NAME.fullmatch(name):
        raise ValueError(f"{where}: name must be of letters, digits, '.', '_', '-', got {name!r}")
    source, target = (
        _location(where, table, {"language": language, "side": side})
        for language, side in zip(languages, ("src", "ref"))
    )
    if source == target:
        raise ValueError(f"{where}: file or member must hold {{language}}, else both sides are one")
    return Text(name, source, target, _count(where, table, "sentences"))


def _location(where: str, table: dict, values: dict[str, str]) -> Location:
    file = _fill(where, _string(where, table, "file"), values)
    if file.endswith(ARCHIVES) != ("member" in table):
        raise ValueError(f"{where}: must have a member if, and only if, file is an archive: {file}")
    if "member" not in table:
        return Location(file, None)
    return Location(file, _fill(where, _string(where, table, "member"), values))


def _fill(where: str, template: str, values: dict[str, str]) -> str:
    filled = template
    for name, value in values.items():
        filled = filled.replace(f"{{{name}}}", value)
    if re.search("[{}]", filled):
        raise ValueError(f"{where}: placeholders must be {{language}} or {{side}}: {template}")
    return filled


def _downloads(tables: object, texts: Sequence[Text]) -> tuple[Download, ...]:
    """Return the downloads of the files that the texts use, once each."""
    if tables is None:
        return ()
    if not isinstance(tables, dict):
        raise ValueError("downloads must be tables [downloads.FILE]")
    declared = {file: _download(file, table) for file, table in tables.items()}
    used = dict.fromkeys(location.file for text in texts for location in (text.source, text.target))
    for file in used:
        if file not in declared:
            raise ValueError(f'must have [downloads."{file}"], has none')
    return tuple(declared[file] for file in used)


def _download(file: str, table: object) -> Download:
    where = f'downloads."{file}"'
    _check_keys(where, table, ("url",), ("size", *DIGITS_OF))
    kinds = [kind for kind in DIGITS_OF if kind in table]
    if len(kinds) > 1:
        raise ValueError(f"{where}: must have sha256 or md5, has both")
    checksum = UNKNOWN
    for kind in kinds:
        digits = _string(where, table, kind)
        if not re.fullmatch(f"[0-9a-f]{{{DIGITS_OF[kind]}}}", digits):
            raise ValueError(
                f"{where}: {kind} must be {DIGITS_OF[kind]} lower-case hexadecimal digits, "
                f"got {digits!r}"
            )
        checksum = f"{kind}:{digits}"
    return Download(file, _string(where, table, "url"), checksum, _count(where, table, "size"))


def _check_keys(
    where: str, table: object, required: Sequence[str], optional: Sequence[str]
) -> None:
    if not isinstance(table, dict):
        raise ValueError(f"{where}: must be a table, got {table!r}")
    for key in required:
        if key not in table:
            raise ValueError(f"{where}: must have {key!r}, has not")
    known = (*required, *optional)
    for key in table:
        if key not in known:
            raise ValueError(f"{where}: unknown key {key!r}; the keys are {', '.join(known)}")


def _string(where: str, table: dict, key: str) -> str:
    value = table[key]
    if not isinstance(value, str) or not value.isprintable() or not value:
        raise ValueError(f"{where}: {key} must be a string of printable characters, got {value!r}")
    return value


def _count(where: str, table: dict, key: str) -> int | None:
    value = table.get(key)
    if key in table and (type(value) is not int or value < 1):
        raise ValueError(f"{where}: {key} must be a positive whole number, got {value!r}")
    return value


def add_manifest_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that name a manifest and a language pair."""
    parser.add_argument("--manifest", type=Path, required=True)
    parser.add_argument("--source-lang", required=True)
    parser.add_argument("--target-lang", required=True)


def main() -> None:
    with script(__doc__) as parser:
        add_manifest_options(parser)
        arguments = parser.parse_args()
        manifest = read_manifest(arguments.manifest, arguments.source_lang, arguments.target_lang)
        for download in manifest.downloads:
            size = download.size or UNKNOWN
            print(download.url, download.file, download.checksum, size, sep="\t")


if __name__ == "__main__":
    main()

"""The manifest of a corpus: the files to download and the place of each text in them.

A corpus.toml has a table [downloads."FILE"] for every file (url, sha256 or md5, size in bytes), a
list [[train]] and the tables [valid] and [test]. A text has a name, a file, the member if the file
is an archive, and the number of sentences if it is known. In file and member, {language} stands for
the language and {side} for src or ref. Without [downloads], the files must be there already.

    python -m fairseq_aiayn.corpus.manifest --manifest corpus.toml --source-lang en --target-lang de

prints URL, file, checksum and size, separated by tabs, for each file to download.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar, NamedTuple

from fairseq_aiayn.console import script
from fairseq_aiayn.files import dataclass_of, require_plain

__all__ = ["read_manifest"]

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

NO_OTHER_KEYS = {"extra": "forbid"}  # for pydantic


@dataclass(frozen=True)
class Download:
    """Where a file comes from, and what it must be."""

    __pydantic_config__: ClassVar[Any] = NO_OTHER_KEYS
    url: str
    size: int | None = None  # bytes
    sha256: str | None = None
    md5: str | None = None

    def __post_init__(self) -> None:
        """Raise ValueError without a checksum."""
        if not (self.sha256 or self.md5):
            raise ValueError(f"expected sha256 or md5 of {self.url}")

    @property
    def checksum(self) -> str:
        """The checksum as "sha256:HEX" or "md5:HEX"."""
        return f"sha256:{self.sha256}" if self.sha256 else f"md5:{self.md5}"


class Location(NamedTuple):
    """The place of one side of a text."""

    file: str
    member: str | None = None  # of the archive; None if the file itself is the text, plain or gzip


@dataclass(frozen=True)
class Text:
    """One parallel text, in any of its languages."""

    __pydantic_config__: ClassVar[Any] = NO_OTHER_KEYS
    name: str
    file: str
    member: str | None = None
    sentences: int | None = None

    def __post_init__(self) -> None:
        """Raise ValueError if both languages would have the same text, or one elsewhere."""
        if "{language}" not in f"{self.file} {self.member}":
            raise ValueError(f"expected {{language}} in file or member, got {self.file}")
        if PurePosixPath(self.file).is_absolute() or ".." in PurePosixPath(self.file).parts:
            raise ValueError(f"expected a file among the downloads, got {self.file}")

    def sides(self, languages: tuple[str, str]) -> list[Location]:
        """Return the places of the source and of the target."""

        def filled(name: str, language: str, side: str) -> str:
            return name.replace("{language}", language).replace("{side}", side)

        return [
            Location(filled(self.file, *side), self.member and filled(self.member, *side))
            for side in zip(languages, ("src", "ref"), strict=True)
        ]


@dataclass(frozen=True)
class Manifest:
    """A corpus, in all its languages."""

    __pydantic_config__: ClassVar[Any] = NO_OTHER_KEYS
    train: tuple[Text, ...]
    valid: Text
    test: Text
    downloads: dict[str, Download] = field(default_factory=dict)  # by file

    def used(self, languages: tuple[str, str]) -> Iterator[tuple[str, Download]]:
        """Yield the downloads that two languages use, in the order of the texts; raises ValueError
        for a file that is not among them."""
        texts = (*self.train, self.valid, self.test)
        files = [location.file for text in texts for location in text.sides(languages)]
        for file in dict.fromkeys(files) if self.downloads else ():
            if file not in self.downloads:
                raise ValueError(f'missing table [downloads."{file}"]')
            yield file, self.downloads[file]


def read_manifest(path: Path) -> Manifest:
    """Read a corpus.toml; raises OSError, or ValueError with file, table and rule."""
    require_plain(path)
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except ValueError as error:
        raise ValueError(f"{path}: expected TOML: {error}") from error
    return dataclass_of(content, Manifest, path)


def add_manifest_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that name a manifest and a language pair."""
    parser.add_argument("--manifest", type=Path, required=True)
    parser.add_argument("--source-lang", required=True)
    parser.add_argument("--target-lang", required=True)


def main() -> None:
    with script(__doc__) as parser:
        add_manifest_options(parser)
        arguments = parser.parse_args()
        manifest = read_manifest(arguments.manifest)
        for file, download in manifest.used((arguments.source_lang, arguments.target_lang)):
            print(download.url, file, download.checksum, download.size or "", sep="\t")


if __name__ == "__main__":
    main()

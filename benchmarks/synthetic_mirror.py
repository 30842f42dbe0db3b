"""A miniature of the files that recipes/wmt14_en_de downloads, with synthetic text in them."""

from __future__ import annotations

import hashlib
import html
import json
import tarfile
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path

from synthetic_text import Pair, sentence_pairs, spoil

LANGUAGES = ("en", "de")
HELD_OUT = 300  # sentences of the development and of the test set
SHARES = (0.43, 0.53, 0.04)  # of WMT14's pairs: Europarl, Common Crawl, News Commentary
NOBODY = "http://localhost:9"
FASTEST = 1  # level of gzip


def write_mirror(manifest: Path, seed: int, pairs: int, directory: Path) -> Path:
    """Write every file that a corpus.toml downloads, its training texts with `pairs` pairs in all.

    Returns the path of a corpus.toml for them. Raises ValueError unless the manifest has as many
    training texts as SHARES.
    """
    content = tomllib.loads(manifest.read_text(encoding="utf-8"))
    if len(content["train"]) != len(SHARES):
        raise ValueError(
            f"{manifest}: must have {len(SHARES)} training texts, has {len(content['train'])}"
        )
    directory.mkdir(parents=True)
    training = spoil(sentence_pairs(seed, pairs))
    held_out = sentence_pairs(seed + 1, 2 * HELD_OUT)
    members: dict[str, list[str]] = {}
    for text, number in zip(content["train"], split(pairs), strict=True):
        names = _write(directory, text["member"], islice(training, number))
        members.setdefault(text["file"], []).extend(names)
    for text in (content["valid"], content["test"]):
        names = _write(directory, text["member"], islice(held_out, HELD_OUT))
        members.setdefault(text["file"], []).extend(names)
        text["sentences"] = HELD_OUT
    for file, names in members.items():
        _pack(directory, file, names)
    path = directory / "corpus.toml"
    path.write_text("\n".join(_toml(content, directory, members)), encoding="utf-8")
    return path


def split(pairs: int) -> list[int]:
    """Divide a number of pairs between the training texts, by SHARES."""
    numbers = [round(share * pairs) for share in SHARES[:-1]]
    return [*numbers, pairs - sum(numbers)]


def _write(directory: Path, member: str, pairs: Iterable[Pair]) -> list[str]:
    """Write the two sides of a text and return the names of their members."""
    names = [
        member.replace("{language}", language).replace("{side}", side)
        for language, side in zip(LANGUAGES, ("src", "ref"))
    ]
    with ExitStack() as opened:
        files = [
            opened.enter_context((directory / name.replace("/", "_")).open("wb")) for name in names
        ]
        for pair in pairs:
            for name, file, line in zip(names, files, pair):
                file.write(_segment(line) if name.endswith(".sgm") else line + b"\n")
    return names


def _segment(line: bytes) -> bytes:
    """Mark up a sentence as WMT's SGML does; what stands around the sentences nobody reads."""
    return f"<seg>{html.escape(line.decode(), quote=False)}</seg>\n".encode()


def _pack(directory: Path, file: str, names: Iterable[str]) -> None:
    """Put the texts of an archive into it."""
    with tarfile.open(directory / file, "w:gz", compresslevel=FASTEST) as archive:
        for name in names:
            text = directory / name.replace("/", "_")
            archive.add(text, arcname=name)
            text.unlink()


def _toml(content: dict, directory: Path, files: Iterable[str]) -> Iterator[str]:
    """Yield the lines of the manifest with the downloads that were written."""
    for file in files:
        path = directory / file
        with path.open("rb") as stream:
            sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
        yield f"[downloads.{json.dumps(file)}]"
        yield f'url = "{NOBODY}/{file}"\nsize = {path.stat().st_size}\nsha256 = "{sha256}"\n'
    tables = [("[[train]]", text) for text in content["train"]]
    for header, text in (*tables, ("[valid]", content["valid"]), ("[test]", content["test"])):
        yield header
        yield from (f"{key} = {json.dumps(value)}" for key, value in text.items())
        yield ""

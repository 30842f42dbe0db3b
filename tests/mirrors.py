"""Miniatures of what a recipe's manifest downloads, made of an invented language pair.

The archives have the real names and members, so that a recipe runs on them without a network.
"""

import gzip
import hashlib
import html
import io
import json
import random
import re
import socket
import tarfile
from collections.abc import Iterable
from pathlib import Path

from fairseq_aiayn.corpus.manifest import tomllib

Pair = tuple[list[str], list[str]]

NOBODY = socket.socket()  # has a port, for as long as tests run, and refuses connections to it
NOBODY.bind(("127.0.0.1", 0))
UNREACHABLE = "http://{}:{}".format(*NOBODY.getsockname())
SYLLABLES = ("ba", "ke", "li", "mo", "nu", "ra", "se", "ti")


def invented_pairs(count: int, seed: int) -> Pair:
    """Return `count` sentences and their translations, word by word: the syllables of each word in
    reverse, with an umlaut at the end."""
    rng = random.Random(seed)
    source, target = [], []
    for _ in range(count):
        words = [rng.choices(SYLLABLES, k=2) for _ in range(rng.randint(3, 9))]
        end = rng.choice(".?!")
        source.append(" ".join(first + second for first, second in words).capitalize() + end)
        target.append(" ".join(f"{second}{first}ö" for first, second in words).capitalize() + end)
    return source, target


def build_mirror(
    manifest_path: Path, directory: Path, pairs: dict[str, Pair], source_lang: str, target_lang: str
) -> Path:
    """Write a miniature of every file that a corpus.toml downloads for two languages.

    `pairs` has the source and target lines of each text by its name. Returns the path of a
    corpus.toml in `directory` with the checksums, sizes and numbers of sentences of the miniatures
    and addresses that nobody answers.
    """
    content = tomllib.loads(manifest_path.read_text(encoding="utf-8"))
    texts = [*content["train"], content["valid"], content["test"]]
    directory.mkdir(parents=True, exist_ok=True)
    files: dict[str, dict[str, bytes]] = {}  # file, member (or "") and what is in it
    for text in texts:
        pair = pairs[text["name"]]
        if "sentences" in text:
            text["sentences"] = len(pair[0])
        for side, language, lines in zip(("src", "ref"), (source_lang, target_lang), pair):
            file = _fill(text["file"], side, language)
            member = _fill(text.get("member", ""), side, language)
            files.setdefault(file, {})[member] = _packed(member or file, lines)
            if member:
                # Earlier in the archive, so that a reader must choose by name.
                decoy = _fill(re.sub("(de|fr)(-?en)", r"cs\2", text["member"]), side, "cs")
                files[file] = {decoy: _packed(decoy, ["decoy"])} | files[file]
    for file, members in files.items():
        (directory / file).write_bytes(members[""] if "" in members else _archive(file, members))
    path = directory / "corpus.toml"
    path.write_text("\n".join(_manifest_lines(content, directory, files)), encoding="utf-8")
    return path


def _fill(template: str, side: str, language: str) -> str:
    return template.replace("{side}", side).replace("{language}", language)


def _packed(name: str, lines: list[str]) -> bytes:
    text = _sgml(name, lines) if name.endswith(".sgm") else "".join(f"{line}\n" for line in lines)
    content = text.encode("utf-8")
    return gzip.compress(content, mtime=0) if name.endswith(".gz") else content


def _sgml(name: str, lines: list[str]) -> str:
    """Mark up sentences as WMT's files do."""
    kind = "srcset" if "-src." in name else "refset"
    marked = "".join(
        f'<seg id="{k}">{html.escape(line, quote=False)}</seg>\n'
        for k, line in enumerate(lines, start=1)
    )
    document = f'<doc sysid="ref" docid="invented" genre="news" origlang="en">\n<p>\n{marked}</p>'
    return f'<{kind} setid="invented" srclang="any">\n{document}\n</doc>\n</{kind}>\n'


def _archive(file: str, members: dict[str, bytes]) -> bytes:
    """Return a tar, in gzip unless it is called .tar; the same bytes at any time."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for folder in dict.fromkeys(name.rpartition("/")[0] for name in members):
            if folder:
                entry = tarfile.TarInfo(folder)
                entry.type = tarfile.DIRTYPE
                archive.addfile(entry)
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    content = packed.getvalue()
    return content if file.endswith(".tar") else gzip.compress(content, mtime=0)


def _manifest_lines(content: dict, directory: Path, files: Iterable[str]) -> Iterable[str]:
    for file in files if "downloads" in content else ():
        miniature = (directory / file).read_bytes()
        yield f"[downloads.{json.dumps(file)}]"
        yield f'url = "{UNREACHABLE}/{file}"'
        yield f"size = {len(miniature)}"
        yield f'sha256 = "{hashlib.sha256(miniature).hexdigest()}"\n'
    texts = [*content["train"], content["valid"], content["test"]]
    headers = ["[[train]]"] * len(content["train"]) + ["[valid]", "[test]"]
    for header, text in zip(headers, texts, strict=True):
        yield header
        yield from (f"{key} = {json.dumps(value)}" for key, value in text.items())
        yield ""

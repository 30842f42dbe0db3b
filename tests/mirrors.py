"""Miniatures of what a recipe's manifest downloads, made of an invented language pair."""

import gzip
import hashlib
import html
import io
import json
import random
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


def make_corpus(recipe: Path, directory: Path, target_lang: str, training: int, *same: str) -> Path:
    """Build a mirror for a recipe, of `training` invented pairs a text, 20 to develop on and 12 to
    test with; every text has the `same` lines before them on both sides."""
    content = tomllib.loads((recipe / "corpus.toml").read_text(encoding="utf-8"))
    sizes = {text["name"]: training for text in content["train"]}
    sizes |= {content["valid"]["name"]: 20, content["test"]["name"]: 12}
    pairs = {}
    for seed, (name, size) in enumerate(sizes.items(), start=1):
        source, target = invented_pairs(size, seed)
        pairs[name] = [*same, *source], [*same, *target]
    return build_mirror(recipe / "corpus.toml", directory, pairs, "en", target_lang)


def build_mirror(
    manifest_path: Path, directory: Path, pairs: dict[str, Pair], source_lang: str, target_lang: str
) -> Path:
    """Write a miniature of every file that a corpus.toml downloads, with the pairs of each text by
    its name. Returns the corpus.toml beside them, with their checksums, and addresses that nobody
    answers."""
    content = tomllib.loads(manifest_path.read_text(encoding="utf-8"))
    directory.mkdir()
    files: dict[str, dict[str, bytes]] = {}  # file, member (or "") and what is in it
    for text in (*content["train"], content["valid"], content["test"]):
        pair = pairs[text["name"]]
        if "sentences" in text:
            text["sentences"] = len(pair[0])
        for side, language, lines in zip(("src", "ref"), (source_lang, target_lang), pair):
            file, member = (
                text.get(key, "").replace("{side}", side).replace("{language}", language)
                for key in ("file", "member")
            )
            files.setdefault(file, {})[member] = _packed(member or file, lines)
    for file, members in files.items():
        if "" in members:
            (directory / file).write_bytes(members[""])
        else:
            _archive(directory / file, members)
    path = directory / "corpus.toml"
    path.write_text("\n".join(_manifest_lines(content, directory, files)), encoding="utf-8")
    return path


def _packed(name: str, lines: list[str]) -> bytes:
    text = _sgml(name, lines) if name.endswith(".sgm") else "".join(f"{line}\n" for line in lines)
    content = text.encode("utf-8")
    return gzip.compress(content, mtime=0) if name.endswith(".gz") else content


def _sgml(name: str, lines: list[str]) -> str:
    kind = "srcset" if "-src." in name else "refset"
    marked = "".join(
        f'<seg id="{k}">{html.escape(line, quote=False)}</seg>\n'
        for k, line in enumerate(lines, start=1)
    )
    document = f'<doc sysid="ref" docid="invented" genre="news" origlang="en">\n<p>\n{marked}</p>'
    return f'<{kind} setid="invented" srclang="any">\n{document}\n</doc>\n</{kind}>\n'


def _archive(path: Path, members: dict[str, bytes]) -> None:
    with tarfile.open(path, "w" if path.suffix == ".tar" else "w:gz") as archive:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))


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

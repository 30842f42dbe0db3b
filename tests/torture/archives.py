"""Attacks by what is downloaded, or given as a corpus: archives, packed and plain text."""

from __future__ import annotations

import gzip
import io
import random
import shutil
import tarfile
from pathlib import Path

import mirrors

from torture.attempt import Attempt
from torture.materials import Materials
from torture.mutation import damage_file, damage_text

CORPUS = "fairseq_aiayn.corpus"
PLAIN_CORPUS = Path(__file__).parents[2] / "recipes" / "demo" / "plain_corpus.py"
LANGUAGES = ("--source-lang", "en", "--target-lang", "de")


def attack(attempt: Attempt, materials: Materials) -> None:
    """Spoil a file of a corpus, read the corpus."""
    (_manifest if attempt.rng.random() < 0.6 else _plain)(attempt, materials)


def _manifest(attempt: Attempt, materials: Materials) -> None:
    rng = attempt.rng
    mirror = attempt.directory / "mirror"
    shutil.copytree(materials.mirror, mirror)
    archives = sorted(path for path in mirror.iterdir() if path.name != "corpus.toml")
    path = rng.choice(archives)
    if rng.random() < 0.15:
        toml = mirror / "corpus.toml"
        toml.write_bytes(damage_text(toml.read_text(), rng))
    elif rng.random() < 0.5:
        damage_file(path, rng)
    else:
        _evil_members(path, rng, attempt.directory)
    outside = attempt.directory / "outside"
    outside.write_text("mine\n")
    attempt.keep(outside)
    given = ("--manifest", mirror / "corpus.toml", "--directory", mirror, *LANGUAGES)
    attempt.run(f"{CORPUS}.texts", *given, "--output", attempt.directory / "data")
    attempt.run(
        *(
            f"{CORPUS}.cleaning",
            *given,
            "--output",
            attempt.directory / "tokens",
            "--workers",
            "1",
        ),
        *("--tokenizer", "moses", "--max-length", "250", "--max-ratio", "1.5"),
    )
    allowed = {"mirror", "data", "tokens", "outside", "stdin", "stdout", "stderr"}
    for found in attempt.directory.iterdir():
        if found.name not in allowed:
            attempt.fault(f"{found.name} appeared beside the output")


def _evil_members(path: Path, rng: random.Random, directory: Path) -> None:
    """Write an archive again, or a text, with what should not be in it."""
    packed = path.suffix in (".gz", ".tgz")
    content = path.read_bytes()
    content = gzip.decompress(content) if packed else content
    try:
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            members = [(one, archive.extractfile(one)) for one in archive]
            members = [(one, stream.read() if stream else b"") for one, stream in members]
    except tarfile.TarError:
        path.write_bytes(gzip.compress(damage_text(content.decode(), rng)))
        return
    number = rng.randrange(len(members))
    entry, data = members[number]
    kind = rng.randrange(6)
    if kind == 0:
        entry.name = rng.choice(("../outside", str(directory / "outside"), "a/../../outside"))
    elif kind == 1:
        entry.type = rng.choice((tarfile.SYMTYPE, tarfile.LNKTYPE))
        entry.linkname, data = "../outside", b""
    elif kind == 2:
        entry.type, data = rng.choice((tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.DIRTYPE)), b""
    elif kind == 3:
        members.insert(number, (tarfile.TarInfo(entry.name), b""))
        number += 1
    elif kind == 4 and not entry.name.endswith(".gz"):
        data = damage_text(data.decode(), rng)
    else:
        data = gzip.compress(b"") if entry.name.endswith(".gz") else b""
    members[number] = (entry, data)
    with tarfile.open(path, "w:gz" if packed else "w") as archive:
        for one, data in members:
            one.size = len(data)
            archive.addfile(one, io.BytesIO(data))


def _plain(attempt: Attempt, materials: Materials) -> None:
    rng = attempt.rng
    corpus = attempt.directory / "corpus"
    corpus.mkdir()
    for split in ("train", "valid", "test"):
        for language, lines in zip(("en", "de"), mirrors.invented_pairs(20, 1)):
            data = "".join(f"{line}\n" for line in lines).encode()
            pack = rng.random() < 0.5
            path = corpus / f"{split}.{language}{'.gz' if pack else ''}"
            path.write_bytes(gzip.compress(data) if pack else data)
    path = rng.choice(sorted(corpus.iterdir()))
    other = path.with_name(path.name.replace(".gz", "") if path.suffix == ".gz" else path.name)
    kind = rng.randrange(4)
    if kind == 1:
        path.unlink()
        other.symlink_to(rng.choice(("/etc/passwd", "nowhere", str(other), "/dev/zero")))
    elif kind == 2:
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        data = damage_text(data.decode(), rng)
        path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    else:
        damage_file(path, rng)
    output = attempt.directory / "texts"
    attempt.run(PLAIN_CORPUS, "--corpus", corpus, *LANGUAGES, "--output", output)

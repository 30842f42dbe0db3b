"""Attacks by a command's surroundings: streams, locale, disk, rights, working directory."""

from __future__ import annotations

import os
from pathlib import Path

from torture.attempt import Attempt
from torture.materials import Materials
from torture.options import sound_arguments

WRITERS = ("average", "attention", "linearize")  # write files, not only their output
OTHERS = ("rows", "cost", "bleu", "evalb", "parse", "delinearize")


def attack(attempt: Attempt, materials: Materials) -> None:
    """Run sound commands in unsound surroundings."""
    for way in (_closed, _full, _small_disk, _no_locale, _read_only):
        way(attempt, materials)


def _words(attempt: Attempt, materials: Materials, name: str | None = None) -> list[str]:
    """A sound command that writes to out/."""
    name = name or attempt.rng.choice(WRITERS + OTHERS)
    return ["aiayn", name, *sound_arguments(name, materials, _output(attempt))]


def _output(attempt: Attempt) -> Path:
    folder = attempt.directory / "out"
    folder.mkdir(exist_ok=True)
    return folder / f"{attempt.commands}.svg"


def _closed(attempt: Attempt, materials: Materials) -> None:
    closed = attempt.rng.choice(((0,), (1,), (2,), (0, 1), (0, 1, 2)))
    attempt.run(*_words(attempt, materials), closed=closed)


def _full(attempt: Attempt, materials: Materials) -> None:
    """/dev/full takes nothing; a pipe whose reader is gone ends a command quietly."""
    words = _words(attempt, materials, attempt.rng.choice(WRITERS))
    words = ["/dev/full" if word == str(_output(attempt)) else word for word in words]
    if words[1] == "linearize":
        words += [attempt.rng.choice(("--words", "--trees")), "/dev/full"]
    attempt.run(*words)


def _small_disk(attempt: Attempt, materials: Materials) -> None:
    words = _words(attempt, materials, attempt.rng.choice(WRITERS))
    output = _output(attempt)
    if words[1] == "linearize":
        words += ["--words", str(output)]
    done = attempt.run(*words, file_mib=attempt.rng.choice((0.0005, 0.002, 0.01)))
    left = [path.name for path in output.parent.glob(f"{output.name}*")]
    if done.status and left:
        attempt.fault(f"a full disk left {left}")


def _no_locale(attempt: Attempt, materials: Materials) -> None:
    value = attempt.rng.choice(("C", "POSIX", "xx_YY", ""))
    words = _words(attempt, materials)
    done = attempt.run(*words, environment={"LC_ALL": value, "LANG": value})
    if done.status:
        attempt.fault(f"{words[1]} fails with the locale {value!r}")


def _read_only(attempt: Attempt, materials: Materials) -> None:
    if os.geteuid() != 0:
        return  # only root can be somebody else for once
    name = attempt.rng.choice(WRITERS)
    words = _words(attempt, materials, name)
    if name == "linearize":
        words += ["--words", str(_output(attempt))]
    done = attempt.run(*words, as_nobody=True)
    if not done.status:
        attempt.fault(f"{name} ended well, but could not write")

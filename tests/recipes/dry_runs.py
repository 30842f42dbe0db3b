"""What the dry run of a recipe shows: its stages and their commands."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from recipe_runs import call


def dry_run(words: Sequence[object], directory: Path | None = None, **variables: str) -> str:
    """Return what the command of a recipe prints when it must run nothing."""
    recipe, *options = words
    result = call([recipe, "--dry_run", *options], directory, **variables)
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout


def commands(text: str, *names: str) -> list[list[str]]:
    """Return the words of each command that begins with one of these names."""
    begins = tuple(f"{name} " for name in names)
    return [shlex.split(line) for line in text.splitlines() if line.startswith(begins)]


def stages(text: str) -> dict[str, list[str]]:
    """Return the commands of every stage."""
    _, *parts = re.split("(?m)^# stage ", text)
    found: dict[str, list[str]] = {}
    for name, *lines in map(str.splitlines, parts):
        found.setdefault(name, []).extend(lines)  # recipes/table3 has stages of several runs
    return found


def value(words: Sequence[str], flag: str) -> str | None:
    """Return the last value of a flag: the one that counts."""
    return next((after for word, after in reversed([*pairwise(words)]) if word == flag), None)

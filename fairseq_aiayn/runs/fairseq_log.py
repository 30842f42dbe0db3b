"""A log of fairseq, which is read from its file once, whatever is asked of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from fairseq_aiayn.text import read_lines


@dataclass(frozen=True)
class Log:
    """The lines of a log, and the file that they come from."""

    path: Path
    lines: Sequence[str]

    @cached_property
    def statistics(self) -> list[dict]:
        """The JSON objects of the log; other lines and half-written objects are skipped."""
        found = []
        for line in self.lines:
            start = line.find("{")
            if start >= 0 and line.endswith("}"):
                try:
                    found.append(json.loads(line[start:]))
                except json.JSONDecodeError:
                    continue
        return found

    def number(self, line: Mapping, key: str) -> float:
        """Return a figure of one of the `statistics`.

        Raises ValueError, with the file and the key, for a figure that is missing or no number.
        """
        try:
            return float(line[key])
        except (KeyError, TypeError, ValueError):
            raise ValueError(
                f"{self.path}: {key!r} must be a number in every line of statistics, got "
                f"{line.get(key)!r}"
            ) from None


def read_log(path: Path) -> Log:
    """Read a log; raises OSError, or ValueError for bytes that are not UTF-8."""
    return Log(path, read_lines(path))

"""Shared code of all comparisons: spreads, ratios of turns, findings, the result file.

The systems are measured in turns, A B A B ..., and a ratio is taken between two consecutive turns.
Tables show the median of all turns with the lowest and the highest.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from targets import find_target

from fairseq_aiayn.runs.write_settings import ROOT, commit, hardware, output_of, packages

sys.path.insert(0, str(ROOT))

from fairseq_aiayn.files.text_table import aligned_lines
from fairseq_aiayn.files.whole import write_whole


@dataclass(frozen=True)
class Spread:
    """The median of several values, between their lowest and their highest."""

    median: float
    lowest: float
    highest: float

    def __str__(self) -> str:
        return f"{number(self.median)} ({number(self.lowest)}–{number(self.highest)})"


def number(value: float) -> str:
    """Three digits or more: 0.000123, 0.123, 12.3, 1,234."""
    if not value:
        return "0"
    size = abs(value)
    return f"{value:,.0f}" if size >= 100 else f"{value:.3g}" if size < 1 else f"{value:#.3g}"


def spread(values: Sequence[float]) -> Spread:
    """Return median, lowest and highest, to six digits."""
    median = statistics.median(values)
    return Spread(*(float(f"{value:.6g}") for value in (median, min(values), max(values))))


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> Spread:
    """Return the spread of the ratios of values that were measured in the same turn."""
    return spread([one / other for one, other in zip(ours, theirs, strict=True)])


@dataclass(frozen=True)
class Finding:
    """A ratio, or a share, with the target that it has against stock fairseq."""

    figure: str
    subject: str  # the row, and what else tells it from other findings
    unit: str  # what is divided by what
    value: Spread
    target: str | None
    met: bool | None

    def cells(self) -> list[str]:
        """Its line of a table."""
        verdict = {None: "", True: "met", False: "missed"}[self.met]
        name = f"{self.figure}, {self.subject}"
        return [name, self.unit, str(self.value), self.target or "", verdict]


def finding(
    figure: str,
    subject: str,
    unit: str,
    value: Spread,
    arguments: argparse.Namespace,
    row: str | None = None,
    precision: str | None = None,
) -> Finding:
    """Set a value beside its target, which it has only in a comparison with stock fairseq."""
    target = None
    if arguments.against == "stock":
        target = find_target(figure, arguments.device, row, precision)
    met = target.met(value.median) if target else None
    return Finding(figure, subject, unit, value, str(target) if target else None, met)


def findings_table(findings: Sequence[Finding]) -> str:
    """Return the findings with their targets, one per line."""
    head = ["", "", "median (lowest–highest)", "target", ""]
    return "\n".join(aligned_lines([head, *(each.cells() for each in findings)]))


def result(
    arguments: argparse.Namespace,
    load: Sequence[float],
    findings: Sequence[Finding],
    measured: Mapping[str, object],
) -> str:
    """Return all figures and what they must be traced back to, as JSON; no path of this machine."""
    content = {
        "machine": hardware(),
        "packages": packages(),
        "commit": commit(),
        "against": rival_commit(arguments.against),
        "command": " ".join(map(_without_folders, sys.argv)),
        "options": {name: _plain(value) for name, value in vars(arguments).items()},
        "load_average": {"before": load, "after": load_average()},
        "written": datetime.now(UTC).isoformat(timespec="seconds"),
        "found": [asdict(each) for each in findings],
        **measured,
    }
    return f"{json.dumps(content, indent=2, ensure_ascii=False)}\n"


def rival_commit(against: str) -> str:
    """Return "stock", or the commit of another checkout, with "+" where files differ from it."""
    if against == "stock":
        return against
    git = ("git", "-C", against)
    head = output_of(*git, "rev-parse", "HEAD") or "not under git"
    return head + ("+" if output_of(*git, "status", "--porcelain") else "")


def load_average() -> list[float]:
    """Return the mean numbers of running processes over 1, 5 and 15 minutes."""
    return [round(load, 2) for load in os.getloadavg()]


def _plain(value: object) -> object:
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return _without_folders(value) if isinstance(value, (str, Path)) else value


def _without_folders(value: str | Path) -> str:
    """Return a path from the root of the checkout on, of another only its name."""
    path = Path(value)
    if path.is_absolute() and path.is_relative_to(ROOT):
        return str(path.relative_to(ROOT))
    return path.name if path.is_absolute() else str(value)


Comparison = Callable[[argparse.Namespace], tuple[str, list[Finding], dict[str, object]]]


def run_comparison(name: str, compare: Comparison, arguments: argparse.Namespace) -> None:
    """Compare, print the table and the findings, write --json; one line for what goes wrong."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    load = load_average()
    try:
        table, findings, measured = compare(arguments)
        print("\n\n".join([table, *([findings_table(findings)] if findings else [])]))
        if arguments.json:
            write_whole(arguments.json, result(arguments, load, findings, measured))
    except (OSError, ValueError) as error:
        raise SystemExit(f"{name}: {error}") from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None

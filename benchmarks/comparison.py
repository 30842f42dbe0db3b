"""Run a comparison: print its table and its findings, and write its result file."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path

from findings import Finding, findings_table

from fairseq_aiayn.runs.record import ROOT, commit, hardware, packages
from fairseq_aiayn.text import one_line_errors, write_whole

INTERRUPTED = 128 + signal.SIGINT  # what a shell reports
# From the options: a table, what was found, and all figures for JSON
Comparison = Callable[[argparse.Namespace], tuple[str, list[Finding], dict[str, object]]]


def run_comparison(compare: Comparison, arguments: argparse.Namespace) -> None:
    """Compare, print the table and the findings, write --json; one line for what goes wrong."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    before = load_average()
    try:
        with one_line_errors(Path(sys.argv[0]).stem):
            table, findings, measured = compare(arguments)
            print(f"{table}\n\n{findings_table(findings)}")
            if arguments.json:
                write_whole(arguments.json, result(arguments, before, findings, measured))
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None


def result(
    arguments: argparse.Namespace,
    load_before: Sequence[float],
    findings: Sequence[Finding],
    measured: Mapping[str, object],
) -> str:
    """Return all figures and what they must be traced back to, as JSON; no path of this machine."""
    content = {
        "machine": hardware(),
        "packages": packages(),
        "commit": commit(),
        "command": " ".join(map(_without_folders, sys.argv)),
        "options": {name: _plain(value) for name, value in vars(arguments).items()},
        "load_average": {"before": load_before, "after": load_average()},
        "written": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "found": [asdict(each) for each in findings],
        **measured,
    }
    return f"{json.dumps(content, indent=2, ensure_ascii=False)}\n"


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

"""print what systems achieved side by side

Reads run directories as the recipes leave them, one a system: cost, quality and examples. The
comparison is written to --output as table.md and table.json.

  aiayn compare exp/demo/aiayn exp/demo/stock --output exp/demo/table
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

from fairseq_aiayn.evaluation.comparison import choose_examples, read_runs
from fairseq_aiayn.evaluation.comparison_table import as_json, markdown


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `aiayn compare`."""
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="a run directory")
    parser.add_argument(
        "--output", required=True, type=Path, metavar="DIR", help="where the table goes"
    )
    parser.add_argument(
        "--examples", type=int, default=5, metavar="N", help="translations to show (default: 5)"
    )


def run(arguments: argparse.Namespace) -> None:
    """Print the comparison of the runs and write it to --output."""
    if arguments.examples < 0:
        raise ValueError(f"--examples must not be negative, got {arguments.examples}")
    runs = read_runs(arguments.runs)
    examples = choose_examples(runs, arguments.examples)
    table = markdown(runs, examples)
    arguments.output.mkdir(parents=True, exist_ok=True)
    data = json.dumps(as_json(runs, examples), indent=2, ensure_ascii=False) + "\n"
    for name, text in (("table.md", table), ("table.json", data)):
        part = arguments.output / f"{name}.part"
        part.write_text(text, encoding="utf-8")
        os.replace(part, arguments.output / name)
    print(table, end="")

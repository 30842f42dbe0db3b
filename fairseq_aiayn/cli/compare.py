"""print what systems achieved side by side

Reads run directories as the recipes leave them: cost, quality and examples, beside the paper's
figures where it prints any of the runs' row and corpus, with what differs in how these were
measured. The comparison is written to --output as table.json and, with how each run was made, as
table.md.

  aiayn compare exp/demo/aiayn-tiny-1 exp/demo/stock-tiny-1 --output exp/demo/table
"""

from __future__ import annotations

import argparse
from pathlib import Path

from fairseq_aiayn.evaluation.comparison import read_comparison
from fairseq_aiayn.evaluation.comparison_table import as_json, markdown, report
from fairseq_aiayn.evaluation.table_files import write_table


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
    comparison = read_comparison(arguments.runs, arguments.examples)
    write_table(arguments.output, "table", report(comparison), as_json(comparison))
    print(markdown(comparison), end="")

"""list the paper's models with their parameter counts

The parameters are those of our model at the given vocabulary, beside the paper's figure in millions
where it prints one. Parsing, which keeps words and trees apart, has so many types on either side.

examples:
  aiayn rows
  aiayn rows --vocab 37000 --json
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

from fairseq_aiayn.evaluation.cost import parameters
from fairseq_aiayn.evaluation.text_table import aligned_lines
from fairseq_aiayn.paper import ROWS, VOCABULARY_EN_DE

COLUMNS = (
    "name",
    "N",
    "d_model",
    "d_ff",
    "h",
    "d_k",
    "d_v",
    "P_drop",
    "epsilon_ls",
    "steps",
    "averaged",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `aiayn rows`."""
    parser.add_argument(
        "--vocab",
        type=int,
        default=VOCABULARY_EN_DE,
        metavar="V",
        help="types (default: %(default)s)",
    )
    parser.add_argument(
        "--json", action="store_true", help="print JSON with every cell of every row"
    )


def run(arguments: argparse.Namespace) -> None:
    """Print a row a line, or a JSON list."""
    if arguments.json:
        rows = [
            asdict(row) | {"arch": row.arch, "parameters": parameters(row, arguments.vocab)}
            for row in ROWS.values()
        ]
        print(json.dumps(rows, indent=2))
        return
    header = [*COLUMNS, "params", "paper"]
    table = [header]
    for row in ROWS.values():
        printed = row.published.parameters
        table.append(
            [str(getattr(row, column)) for column in COLUMNS]
            + [f"{parameters(row, arguments.vocab) / 1e6:.2f}M", f"{printed}M" if printed else ""]
        )
    print(*aligned_lines(table), sep="\n")

"""list the paper's models with their sizes and costs, or compare two of them

Computed, all but t2t for the given vocabulary:
  params      parameters of our model. Parsing has separate vocabularies of this size for words and
              for trees.
  FLOPs/pair  of the forward pass for one source token and one target token
  training    FLOPs of all steps, as counted by aiayn cost
  memory      what training needs for any batch: weights, gradients and Adam's two moments in
              float32, 16 bytes per parameter. Activations come on top: they grow with the batch and
              depend on the attention kernel that PyTorch chooses.
  t2t         parameters of a row of Table 3 as the authors' code, tensor2tensor, counted them, with
              a vocabulary of its own (docs/deviations.md). All but big's round to the paper's.
The last three columns are the paper's: its parameters, development perplexity and BLEU.

--diff names cells as --json does. Its ratio is the first row's value divided by the second's.

examples:
  aiayn rows
  aiayn rows base big --markdown
  aiayn rows --vocab 37000 --json
  aiayn rows --diff a_h1 base
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence

from fairseq_aiayn.cost import (
    USUAL_LENGTH,
    difference_table,
    row_as_json,
    row_differences,
    row_table,
)
from fairseq_aiayn.paper import ROWS, VOCABULARY_EN_DE, Row, find_row
from fairseq_aiayn.report.document import Table, blocks_as_markdown
from fairseq_aiayn.text import aligned_lines


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `aiayn rows`."""
    parser.add_argument("names", nargs="*", metavar="NAME", help="rows to list (default: all)")
    parser.add_argument(
        "--diff", nargs=2, metavar=("A", "B"), help="print the cells in which two rows differ"
    )
    add_vocabulary(parser)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--markdown", action="store_true", help="print a table in Markdown")
    form.add_argument(
        "--json", action="store_true", help="print JSON with all cells, in full precision"
    )


def add_vocabulary(parser: argparse.ArgumentParser) -> None:
    """Declare --vocab, by default English-German's."""
    parser.add_argument(
        "--vocab",
        type=int,
        default=VOCABULARY_EN_DE,
        metavar="V",
        help="types in the vocabulary (default: %(default)s)",
    )


def run(arguments: argparse.Namespace) -> None:
    """Print one row per line, or the cells in which two rows differ."""
    if arguments.diff and arguments.names:
        raise ValueError(f"--diff: expected no other rows, got {' '.join(arguments.names)}")
    rows = [find_row(name) for name in arguments.diff or arguments.names] or [*ROWS.values()]
    if arguments.json:
        print(json.dumps(_as_json(rows, arguments), indent=2))
        return
    form = difference_table if arguments.diff else row_table
    header, *cells = form(rows, arguments.vocab)
    if not cells:
        print(f"{rows[0].name} and {rows[1].name}: no cell differs")
    elif arguments.markdown:
        print(blocks_as_markdown([Table(header, cells)]), end="")
    else:
        print(*aligned_lines([header, *cells]), sep="\n")


def _as_json(rows: Sequence[Row], arguments: argparse.Namespace) -> list | dict:
    if not arguments.diff:
        return [row_as_json(row, arguments.vocab) for row in rows]
    return {
        "rows": [row.name for row in rows],
        "vocabulary": arguments.vocab,
        "length": USUAL_LENGTH,
        "differences": [
            cell._asdict() for cell in row_differences(rows[0], rows[1], arguments.vocab)
        ],
    }

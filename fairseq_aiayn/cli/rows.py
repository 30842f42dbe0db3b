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

from fairseq_aiayn.cli.vocabulary_option import add_vocabulary_option
from fairseq_aiayn.cost import difference_as_json, difference_table, row_as_json, row_table
from fairseq_aiayn.paper import ROWS, Row, find_row
from fairseq_aiayn.report.document import Table
from fairseq_aiayn.report.markdown import blocks_as_markdown
from fairseq_aiayn.text import aligned_lines


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `aiayn rows`."""
    parser.add_argument("names", nargs="*", metavar="NAME", help="rows to list (default: all)")
    parser.add_argument(
        "--diff", nargs=2, metavar=("A", "B"), help="print the cells in which two rows differ"
    )
    add_vocabulary_option(parser)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--markdown", action="store_true", help="print a table in Markdown")
    form.add_argument(
        "--json", action="store_true", help="print JSON with all cells, in full precision"
    )


def run(arguments: argparse.Namespace) -> None:
    """Print one row per line, or the cells in which two rows differ."""
    if not arguments.diff:
        rows = [find_row(name) for name in arguments.names] or list(ROWS.values())
        _print_rows(rows, arguments)
        return
    if arguments.names:
        raise ValueError(
            f"--diff compares the two rows it names: got {' '.join(arguments.names)} beside them"
        )
    first, second = (find_row(name) for name in arguments.diff)
    _print_difference(first, second, arguments)


def _print_rows(rows: Sequence[Row], arguments: argparse.Namespace) -> None:
    if arguments.json:
        print(json.dumps([row_as_json(row, arguments.vocab) for row in rows], indent=2))
        return
    _print_cells(row_table(rows, arguments.vocab), arguments.markdown)


def _print_difference(first: Row, second: Row, arguments: argparse.Namespace) -> None:
    if arguments.json:
        print(json.dumps(difference_as_json(first, second, arguments.vocab), indent=2))
        return
    header, *cells = difference_table(first, second, arguments.vocab)
    if cells:
        _print_cells([header, *cells], arguments.markdown)
    else:
        print(f"{first.name} and {second.name}: no cell differs")


def _print_cells(cells: Sequence[Sequence[str]], markdown: bool) -> None:
    if markdown:
        print(blocks_as_markdown([Table(cells[0], cells[1:])]), end="")
    else:
        print(*aligned_lines(cells), sep="\n")

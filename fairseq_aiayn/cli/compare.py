"""set runs side by side: a table, and a page with curves, significance and differences

Reads run directories as the recipes leave them, of translation models (RUN) or of parsers
(RUN/PART), any systems, rows and seeds, of one test set. Prints a table of cost and quality, beside
the paper's figures where it prints any of the runs' rows and corpus, and some translations. In
--output it leaves

  report.html   one file, to look at offline: the table, a paired bootstrap against the first run,
                what was done differently, learning curves, BLEU by length, sentences whose
                translations differ most; of parsers F1 by label
  report.md     the same without pictures
  report.json   all figures of it
  table.md      the table, and how each run was made
  table.json    its figures

examples:
  aiayn compare exp/demo/aiayn-tiny-1 exp/demo/stock-tiny-1 --output exp/demo/table
  aiayn compare exp/wsj_parsing/gum/*-1/test --output exp/wsj_parsing/gum/table
"""

from __future__ import annotations

import argparse
from pathlib import Path

from fairseq_aiayn.report.document import (
    as_html,
    as_markdown,
    blocks_as_markdown,
    write_markdown_and_json,
)
from fairseq_aiayn.text import write_whole


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `aiayn compare`."""
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="a run's directory")
    parser.add_argument(
        "--output", required=True, type=Path, metavar="DIR", help="where the files go"
    )
    parser.add_argument(
        "--examples",
        type=int,
        default=5,
        metavar="N",
        help="sentences to show, spread over the test set and where runs differ most (default: 5)",
    )


def run(arguments: argparse.Namespace) -> None:
    """Print the table of the runs and write the page to --output."""
    from fairseq_aiayn.report.pages import document, read_report, report_as_json
    from fairseq_aiayn.report.tables import full_blocks, results_as_json, summary_blocks

    if arguments.examples < 0:
        raise ValueError(f"--examples must not be negative, got {arguments.examples}")
    report = read_report(arguments.runs, arguments.examples)
    output, results, page = arguments.output, report.results, document(report)
    full = blocks_as_markdown(full_blocks(results))
    write_markdown_and_json(output, "table", full, results_as_json(results))
    write_markdown_and_json(output, "report", as_markdown(page), report_as_json(report))
    write_whole(output / "report.html", as_html(page))
    print(blocks_as_markdown(summary_blocks(results)), end="")

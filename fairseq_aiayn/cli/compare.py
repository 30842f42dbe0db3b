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
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from fairseq_aiayn.diagnosis.diagnosis import as_json
from fairseq_aiayn.report.markdown import as_markdown, blocks_as_markdown
from fairseq_aiayn.report.markdown_and_json import write_markdown_and_json
from fairseq_aiayn.text import write_whole

PARSER = "gold.trees"  # is only in the directory of a search with a parser


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
    from fairseq_aiayn.report import comparison, parsing, table4, translation
    from fairseq_aiayn.report.html import as_html

    if arguments.output.exists() and not arguments.output.is_dir():
        raise ValueError(f"--output must be a directory, {arguments.output} is none")
    if arguments.examples < 0:
        raise ValueError(f"--examples must not be negative, got {arguments.examples}")
    if _of_parsers(arguments.runs):
        report = parsing.read_report(arguments.runs)
        tables, table, pages = table4, report.table, parsing
    else:
        report = translation.read_report(arguments.runs, arguments.examples)
        tables, table, pages = comparison, report.comparison, translation
    output, page = arguments.output, pages.document(report)
    full = blocks_as_markdown(tables.full_blocks(table))
    write_markdown_and_json(output, "table", full, tables.as_json(table))
    diagnoses = {name: as_json(one) for name, one in report.diagnoses.items()}
    content = {"kind": pages.KIND, **asdict(report), "diagnoses": diagnoses}
    write_markdown_and_json(output, "report", as_markdown(page), content)
    write_whole(output / "report.html", as_html(page))
    print(blocks_as_markdown(tables.summary_blocks(table)), end="")


def _of_parsers(directories: Sequence[Path]) -> bool:
    """Are these searches with parsers? ValueError where some are and some are not."""
    found = [(path / PARSER).exists() for path in directories]
    if len(set(found)) > 1:
        parser, other = directories[found.index(True)], directories[found.index(False)]
        raise ValueError(f"{parser} is of a parser, {other} is not: they do not compare")
    return found[0]

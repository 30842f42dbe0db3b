"""turn sequences back into trees, one per line

This reverses `aiayn linearize`. LINEARISED holds a model's output (- for standard input); --words
holds the words of each line, separated by spaces. A sequence that is not a tree over exactly these
words is repaired. Standard error says how many sequences needed which repair; --report writes the
same as JSON. The output is trees in Penn Treebank brackets under TOP, which `aiayn evalb` scores.

EVALB does not count words tagged , . : `` or ''. To make sure that exactly the punctuation has
these five tags, some tags change, even in well-formed sequences. Brackets and other tags stay.

- Each of the marks , . ? ! : ; .. ... [...] `` ` '' " gets its usual tag among the five unless it
  already has one of the five: (NN ?) becomes (. ?), and (: ,) stays. The same holds for Unicode's
  ellipsis, bullet, double quotation marks, opening single quotation mark, two en dashes in a row.
- Any other word but a hyphen, a dash or an apostrophe must not have one of the five and gets XX:
  (, board) becomes (XX board). No word has the tag of a trace, -NONE-, or of the root.
- XX stands for no tag. It becomes the usual tag of a mark above or of a dash (--, Unicode's en and
  em dash), and stays for any other word.

Changes of the first two kinds are counted as "punctuation tags".

  aiayn delinearize predicted.tree --words valid.words > predicted.trees
  aiayn delinearize --words valid.words --report repairs.json < predicted.tree > predicted.trees
"""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import nullcontext
from pathlib import Path

from fairseq_aiayn.text import (
    STANDARD_INPUT,
    read_line_pairs,
    require_not_among,
    source_name,
    whole_file,
)
from fairseq_aiayn.treebank.repair import RepairReport, repair
from fairseq_aiayn.treebank.trees import SYMBOLS, write_tree


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `aiayn delinearize`."""
    parser.add_argument(
        "linearized", nargs="?", default=STANDARD_INPUT, metavar="LINEARISED", help="sequences"
    )
    parser.add_argument("--words", required=True, metavar="FILE", help="the words of each line")
    parser.add_argument("--report", type=Path, metavar="FILE", help="write the repairs as JSON")


def run(arguments: argparse.Namespace) -> None:
    """Print the trees, then say what was repaired."""
    require_not_among("--report", arguments.report, (arguments.linearized, arguments.words))
    with nullcontext() if arguments.report is None else whole_file(arguments.report) as file:
        report = _print_trees(arguments)
        for line in report.lines():
            print(line, file=sys.stderr)
        if file:
            file.write(json.dumps(report.as_json(), indent=2) + "\n")
            sys.stdout.flush()  # no report if the trees cannot be written


def _print_trees(arguments: argparse.Namespace) -> RepairReport:
    report = RepairReport()
    for lines in read_line_pairs(arguments.linearized, arguments.words):
        symbols, words = map(SYMBOLS.findall, lines)
        try:
            repaired = repair(symbols, words)
        except ValueError as error:
            where = f"{source_name(arguments.words)}:{report.sentences + 1}"
            raise ValueError(f"{where}: {error}") from error
        report.add(repaired)
        print(write_tree(repaired.tree))
    return report

"""score constituency trees as EVALB does, with the parameters of COLLINS.prm

Both files have one tree a line, as brackets: (TOP (NP (DT the) (NN board))). Traces and function
tags may stand in either. The output is that of the C program, to the digit, for balanced trees
within its limits. Sentences that are errors (other words than gold's, brackets that do not balance)
or skipped (no words) do not count, and the first of them are listed on standard error.

  aiayn evalb gold.trees predicted.trees
  aiayn evalb gold.trees predicted.trees --per-sentence > evalb.txt
  aiayn evalb gold.trees.gz - --parameters new.prm --json < predicted.trees
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Iterator

from fairseq_aiayn.treebank.evalb import score_files
from fairseq_aiayn.treebank.evalb_parameters import COLLINS, read_parameters
from fairseq_aiayn.treebank.evalb_report import (
    TABLE_HEAD,
    sentence_line,
    summary_lines,
    totals_lines,
)
from fairseq_aiayn.treebank.evalb_sentence import SentenceScore
from fairseq_aiayn.treebank.evalb_summary import summarize
from fairseq_aiayn.treebank.lines import source_name

LISTED = 10  # sentences that do not count; the totals have the number of all


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `aiayn evalb`."""
    parser.add_argument("gold", metavar="GOLD", help="the right trees, - for standard input")
    parser.add_argument("predicted", metavar="PREDICTED", help="the trees to score")
    parser.add_argument(
        "--parameters", metavar="FILE.prm", help="EVALB's parameters (default: COLLINS.prm's)"
    )
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true", help="print JSON, with counts per label")
    output.add_argument(
        "--per-sentence", action="store_true", help="print a line a sentence before the summary"
    )


def run(arguments: argparse.Namespace) -> None:
    """Print the score of PREDICTED against GOLD."""
    parameters = read_parameters(arguments.parameters) if arguments.parameters else COLLINS
    sentences = score_files(arguments.gold, arguments.predicted, parameters)
    sentences = _list_uncounted(sentences, source_name(arguments.predicted))
    if arguments.per_sentence:
        sentences = _print_table(sentences)
    scores = summarize(sentences, parameters)
    if arguments.json:
        print(json.dumps(dataclasses.asdict(scores), indent=2, ensure_ascii=False))
        return
    if arguments.per_sentence:
        print(*totals_lines(scores.all), sep="\n")
    print(*summary_lines(scores), sep="\n")


def _list_uncounted(scores: Iterator[SentenceScore], predicted: str) -> Iterator[SentenceScore]:
    """Pass scores on; list those that do not count."""
    uncounted = 0
    for number, score in enumerate(scores, start=1):
        uncounted += bool(score.status)
        if score.status and uncounted <= LISTED:
            print(
                f"{predicted}:{number}: {score.status.name.lower()}: {score.reason}",
                file=sys.stderr,
            )
        yield score
    if uncounted > LISTED:
        print(f"{predicted}: {uncounted:,} sentences do not count", file=sys.stderr)


def _print_table(scores: Iterator[SentenceScore]) -> Iterator[SentenceScore]:
    """Pass scores on; print a line of each."""
    for number, score in enumerate(scores, start=1):
        if number == 1:
            print(TABLE_HEAD)
        print(sentence_line(number, score))
        yield score

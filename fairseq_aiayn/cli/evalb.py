"""score constituency trees as EVALB does, with the parameters of COLLINS.prm

Both files have one tree per line, as brackets: (TOP (NP (DT the) (NN board))). Treebank files
have a tree over several lines: `aiayn linearize FILE --trees OUT > /dev/null` puts each on one.
Traces and function tags may stand in either. The output is that of the C program, to the digit, for
balanced trees within its limits. Sentences that are errors (other words than gold's, brackets that
do not balance) or skipped (no words) do not count, and the first of them are listed on standard
error.

  aiayn evalb gold.trees predicted.trees
  aiayn evalb gold.trees predicted.trees --per-sentence > evalb.txt
  aiayn evalb gold.trees.gz - -p new --json < predicted.trees
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import sys
from collections.abc import Iterator

from fairseq_aiayn.treebank.evalb import score_files
from fairseq_aiayn.treebank.evalb_parameters import find_parameters
from fairseq_aiayn.treebank.evalb_report import (
    TABLE_HEAD,
    sentence_line,
    summary_lines,
    totals_lines,
)
from fairseq_aiayn.treebank.evalb_sentence import SentenceScore, Status
from fairseq_aiayn.treebank.evalb_summary import Scores, summarize
from fairseq_aiayn.treebank.lines import source_name

UNBALANCED = "bracket"  # is in the reason of an error of one file alone
LISTED = 10  # sentences that do not count; the totals have the number of all


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `aiayn evalb`."""
    parser.add_argument("gold", metavar="GOLD", help="the right trees, - for standard input")
    parser.add_argument("predicted", metavar="PREDICTED", help="the trees to score")
    parser.add_argument(
        *("-p", "--parameters"),
        default="COLLINS",
        metavar="NAME",
        help="EVALB's parameters: COLLINS, new, or a .prm file (default: %(default)s)",
    )
    parser.add_argument(
        *("-e", "--max-errors"),
        type=int,
        metavar="N",
        help="end with an error after so many sentences that are errors (default: never)",
    )
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true", help="print JSON, with counts per label")
    output.add_argument(
        "--per-sentence", action="store_true", help="print a line a sentence before the summary"
    )


def run(arguments: argparse.Namespace) -> None:
    """Print the score of PREDICTED against GOLD."""
    if arguments.max_errors is not None and arguments.max_errors < 1:
        raise ValueError(f"--max-errors must be at least 1, got {arguments.max_errors}")
    parameters = find_parameters(arguments.parameters)
    sentences = score_files(arguments.gold, arguments.predicted, parameters)
    sentences = _list_uncounted(
        sentences, source_name(arguments.predicted), arguments.max_errors or math.inf
    )
    if arguments.per_sentence:
        sentences = _print_table(sentences)
    scores = summarize(sentences, parameters)
    _warn_of_roots(scores)
    if arguments.json:
        print(json.dumps(dataclasses.asdict(scores), indent=2, ensure_ascii=False))
        return
    if arguments.per_sentence:
        print(*totals_lines(scores.all), sep="\n")
    print(*summary_lines(scores), sep="\n")


def _list_uncounted(
    scores: Iterator[SentenceScore], predicted: str, max_errors: float
) -> Iterator[SentenceScore]:
    """Pass scores on; list those that do not count, and ValueError after so many errors."""
    uncounted = errors = unbalanced = 0
    for number, score in enumerate(scores, start=1):
        uncounted += bool(score.status)
        errors += score.status is Status.ERROR
        unbalanced += UNBALANCED in score.reason
        if score.status and uncounted <= LISTED:
            print(
                f"{predicted}:{number}: {score.status.name.lower()}: {score.reason}",
                file=sys.stderr,
            )
        if errors >= max_errors:
            raise ValueError(f"{predicted}:{number}: error number {errors}, as --max-errors allows")
        yield score
    if uncounted > LISTED:
        print(f"{predicted}: {uncounted:,} sentences do not count", file=sys.stderr)
    if unbalanced:
        print(
            f"warning: {unbalanced:,} lines are no whole tree, and nothing of them counts: there "
            "must be one tree per line (aiayn linearize FILE --trees OUT > /dev/null)",
            file=sys.stderr,
        )


def _warn_of_roots(scores: Scores) -> None:
    """An empty root label counts as a constituent, TOP does not: the two never match."""
    roots = scores.labels.get("")
    if roots and roots.gold != roots.predicted:
        print(
            f"warning: constituents without a label, as the root of ( (S ...)), count: gold has "
            f"{roots.gold:,}, the prediction {roots.predicted:,}; write TOP in both",
            file=sys.stderr,
        )


def _print_table(scores: Iterator[SentenceScore]) -> Iterator[SentenceScore]:
    """Pass scores on; print a line of each."""
    for number, score in enumerate(scores, start=1):
        if number == 1:
            print(TABLE_HEAD)
        print(sentence_line(number, score))
        yield score

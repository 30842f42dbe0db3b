"""score constituency trees as EVALB does, with the parameters of COLLINS.prm

Both files have one tree per line, in brackets: (TOP (NP (DT the) (NN board))). Treebank files
spread a tree over several lines: `aiayn linearize FILE --trees OUT > /dev/null` puts each tree on
one line. Both files may have traces and function tags. For balanced trees within the limits of the
C program EVALB, the output is the same to the last digit. Two kinds of sentences do not count:
errors (words that differ from gold, unbalanced brackets) and skipped sentences (no words). The
first of these are listed on standard error.

  aiayn evalb gold.trees predicted.trees
  aiayn evalb gold.trees predicted.trees --per-sentence > evalb.txt
  aiayn evalb gold.trees.gz - -p new --json < predicted.trees

With --json --per-sentence, the JSON also has a list "sentences" of one object per sentence:
"number" (from 1), "status" (valid, error or skipped; if not valid, "reason" says why), "length",
"recall", "precision", "matched", "gold", "predicted", "crossing", "words", "correct_tags" and
"tagging_accuracy". "recall", "precision" and "tagging_accuracy" are in per cent, the other numbers
are counts. This prints the ten sentences with the lowest recall:

  aiayn evalb gold.trees predicted.trees --json --per-sentence > evalb.json
  jq -c '[.sentences[] | select(.status == "valid")] | sort_by(.recall)[:10][]' evalb.json
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Iterator

from fairseq_aiayn.text import shortened, source_name
from fairseq_aiayn.treebank.evalb import (
    TABLE_HEAD,
    Scores,
    SentenceScore,
    Status,
    find_parameters,
    score_files,
    sentence_fields,
    sentence_line,
    summarize,
    summary_lines,
    totals_lines,
)

LISTED = 10  # sentences that do not count; the totals include the rest


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `aiayn evalb`."""
    parser.add_argument("gold", metavar="GOLD", help="the correct trees, - for standard input")
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
        help="stop with an error at the N-th sentence that is an error (default: never)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON, with counts per label")
    parser.add_argument(
        "--per-sentence",
        action="store_true",
        help='print one line per sentence before the summary; with --json, add "sentences"',
    )


def run(arguments: argparse.Namespace) -> None:
    """Print the score of PREDICTED against GOLD."""
    if arguments.max_errors is not None and arguments.max_errors < 1:
        raise ValueError(f"--max-errors: expected at least 1, got {arguments.max_errors}")
    parameters = find_parameters(arguments.parameters)
    scored = score_files(arguments.gold, arguments.predicted, parameters)
    predicted = source_name(arguments.predicted)
    sentences = [*_list_uncounted(scored, predicted, arguments.max_errors)]
    scores = summarize(sentences, parameters)
    _warn_of_roots(scores)
    numbered = [*enumerate(sentences, start=1)] if arguments.per_sentence else []
    if arguments.json:
        content = dataclasses.asdict(scores)
        if numbered:
            content["sentences"] = [sentence_fields(*sentence) for sentence in numbered]
        print(json.dumps(content, indent=2, ensure_ascii=False))
        return
    if numbered:
        lines = (sentence_line(*sentence) for sentence in numbered)
        print(TABLE_HEAD, *lines, *totals_lines(scores.all), sep="\n")
    print(*summary_lines(scores), sep="\n")


def _list_uncounted(
    scores: Iterator[SentenceScore], predicted: str, max_errors: int | None
) -> Iterator[SentenceScore]:
    """Pass scores on and list those that do not count; raises ValueError at error `max_errors`."""
    uncounted = errors = unbalanced = 0
    for number, score in enumerate(scores, start=1):
        if score.status is Status.VALID:
            yield score
            continue
        uncounted += 1
        errors += score.status is Status.ERROR
        unbalanced += score.words > 0  # no other error has figures
        if uncounted <= LISTED:
            reason = f"{score.status.name.lower()}: {score.reason}"
            print(shortened(f"{predicted}:{number}: {reason}"), file=sys.stderr)
        if score.status is Status.ERROR and errors == max_errors:
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
    """Warn if only one side has empty root labels: these count as constituents, TOP does not."""
    roots = scores.labels.get("")
    if roots and roots.gold != roots.predicted:
        print(
            f"warning: constituents without a label, as the root of ( (S ...)), count: gold has "
            f"{roots.gold:,}, the prediction {roots.predicted:,}; write TOP in both",
            file=sys.stderr,
        )

"""EVALB's scores as text, with the layout and the spelling of the C program; the counts of such a
text; the score of a sentence as a dict for JSON."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from fairseq_aiayn.files.parallel_text import read_lines
from fairseq_aiayn.treebank.evalb.sentence import SentenceScore, Status, percent
from fairseq_aiayn.treebank.evalb.summary import Scores, Summary

RULE = "=" * 76
TABLE_HEAD = f"""\
  Sent.                        Matched  Bracket   Cross        Correct Tag
 ID  Len.  Stat. Recal  Prec.  Bracket gold test Bracket Words  Tags Accracy
{RULE}"""
COLUMNS = 12
COUNTS = 2, 5, 6, 7  # the columns of the status, and of matched, gold and predicted constituents


class Constituents(NamedTuple):
    """How many constituents of a sentence count; all are 0 if the sentence does not count."""

    matched: int
    gold: int
    predicted: int


def sentence_line(number: int, score: SentenceScore) -> str:
    """Return the line of one sentence; `number` counts from 1."""
    return (
        f"{number:4d}  {score.length:3d}    {score.status:d}  "
        f"{score.recall:6.2f} {score.precision:6.2f}   "
        f"{len(score.matched):3d}    {len(score.gold):3d}  {len(score.predicted):3d}    "
        f"{score.crossing:3d}   {score.words:4d}  {score.correct_tags:4d}   "
        f"{percent(score.correct_tags, score.words):6.2f}"
    )


def read_constituents(path: str | Path) -> list[Constituents]:
    """Read the lines of sentences from a table of EVALB, ours or the C program's.

    Raises OSError, and ValueError with the line that breaks the layout.
    """
    lines = read_lines(path)
    rules = [number for number, line in enumerate(lines) if line == RULE]
    if len(rules) < 2:
        raise ValueError(f"{path}: must have a table of sentences between two lines of =, has none")
    found = []
    for number in range(rules[0] + 1, rules[1]):
        fields = lines[number].split()
        counts = [fields[column] for column in COUNTS if column < len(fields)]
        if len(fields) != COLUMNS or not all(count.isdecimal() for count in counts):
            raise ValueError(
                f"{path}:{number + 1}: must be a line of EVALB's table, got {lines[number]!r:.60}"
            )
        status, *constituents = map(int, counts)
        found.append(Constituents(*(constituents if status == Status.VALID else (0, 0, 0))))
    return found


def sentence_fields(number: int, score: SentenceScore) -> dict[str, int | float | str]:
    """Return the figures of `sentence_line` by name, and the reason why a sentence does not
    count."""
    return {
        "number": number,
        "status": score.status.name.lower(),
        **({"reason": score.reason} if score.reason else {}),
        "length": score.length,
        "recall": score.recall,
        "precision": score.precision,
        "matched": len(score.matched),
        "gold": len(score.gold),
        "predicted": len(score.predicted),
        "crossing": score.crossing,
        "words": score.words,
        "correct_tags": score.correct_tags,
        "tagging_accuracy": percent(score.correct_tags, score.words),
    }


def totals_lines(total: Summary) -> Iterator[str]:
    """Yield the last lines of the table of sentences."""
    brackets = ""
    if total.gold_constituents and total.predicted_constituents:
        brackets = (
            f"                {total.recall:6.2f} {total.precision:6.2f} "
            f"{total.matched_constituents:6d} {total.gold_constituents:5d} "
            f"{total.predicted_constituents:5d}  {total.crossing_constituents:5d}"
        )
    yield RULE
    yield f"{brackets}  {total.words:5d} {total.correct_tags:5d}   {total.tagging_accuracy:6.2f}"


def summary_lines(scores: Scores) -> Iterator[str]:
    """Yield the lines of both summaries."""
    yield "=== Summary ==="
    for title, summary in (("All", scores.all), (f"len<={scores.cutoff}", scores.short)):
        yield ""
        yield f"-- {title} --"
        yield f"Number of sentence        = {summary.sentences:6d}"
        yield f"Number of Error sentence  = {summary.errors:6d}"
        yield f"Number of Skip  sentence  = {summary.skipped:6d}"
        yield f"Number of Valid sentence  = {summary.valid:6d}"
        yield f"Bracketing Recall         = {summary.recall:6.2f}"
        yield f"Bracketing Precision      = {summary.precision:6.2f}"
        yield f"Bracketing FMeasure       = {summary.f1:6.2f}"
        yield f"Complete match            = {summary.complete_match:6.2f}"
        yield f"Average crossing          = {summary.average_crossing:6.2f}"
        yield f"No crossing               = {summary.no_crossing:6.2f}"
        yield f"2 or less crossing        = {summary.two_or_less_crossing:6.2f}"
        yield f"Tagging accuracy          = {summary.tagging_accuracy:6.2f}"

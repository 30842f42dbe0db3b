"""EVALB's scores as text, with the layout and the spelling of the C program, and the score of a
sentence as a dict for JSON."""

from __future__ import annotations

from collections.abc import Iterator

from fairseq_aiayn.treebank.evalb.sentence import SentenceScore, percent
from fairseq_aiayn.treebank.evalb.summary import Scores, Summary

RULE = "=" * 76
TABLE_HEAD = f"""\
  Sent.                        Matched  Bracket   Cross        Correct Tag
 ID  Len.  Stat. Recal  Prec.  Bracket gold test Bracket Words  Tags Accracy
{RULE}"""


def sentence_line(number: int, score: SentenceScore) -> str:
    """Return the line of one sentence; `number` counts from 1."""
    return (
        f"{number:4d}  {score.length:3d}    {score.status:d}  "
        f"{score.recall:6.2f} {score.precision:6.2f}   "
        f"{len(score.matched):3d}    {len(score.gold):3d}  {len(score.predicted):3d}    "
        f"{score.crossing:3d}   {score.words:4d}  {score.correct_tags:4d}   "
        f"{percent(score.correct_tags, score.words):6.2f}"
    )


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

"""The output of `aiayn evalb` as text, in the layout of the C program."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairseq_aiayn.treebank.evalb import (
    TABLE_HEAD,
    Scores,
    read_constituents,
    score_sentence,
    sentence_line,
    summarize,
    summary_lines,
    totals_lines,
)

GOLD = "(TOP (S (NP (DT a) (NN b)) (VP (VB c) (NP (NN d))) (. .)))"
PREDICTED = "(TOP (S (NP (DT a)) (VP (NN b) (VB c) (NP (NN d))) (. .)))"


def score(*predicted: str) -> Scores:
    return summarize(score_sentence(GOLD, tree) for tree in predicted)


def test_a_line_of_the_table() -> None:
    """S and the second NP match; VP crosses the gold NP. Errors and skips keep the gold length."""
    line = "  12    5    0   50.00  50.00     2      4    4      1      4     4   100.00"
    assert sentence_line(12, score_sentence(GOLD, PREDICTED)) == line
    zeros = "0.00   0.00     0      0    0      0      0     0     0.00"
    assert sentence_line(3, score_sentence(GOLD, "(NN a)")) == f"   3    5    1    {zeros}"
    assert sentence_line(12345, score_sentence(GOLD, "")) == f"12345    5    2    {zeros}"


def test_the_end_of_the_table() -> None:
    rule, totals = totals_lines(score(GOLD, PREDICTED).all)
    assert rule == "=" * 76
    assert totals == "                 75.00  75.00      6     8     8      1      8     8   100.00"
    assert list(totals_lines(score("").all))[1] == "      0     0     0.00"


def test_both_summaries() -> None:
    lines = list(summary_lines(score(GOLD, PREDICTED, "")))
    assert lines[:16] == [
        "=== Summary ===",
        "",
        "-- All --",
        "Number of sentence        =      3",
        "Number of Error sentence  =      0",
        "Number of Skip  sentence  =      1",
        "Number of Valid sentence  =      2",
        "Bracketing Recall         =  75.00",
        "Bracketing Precision      =  75.00",
        "Bracketing FMeasure       =  75.00",
        "Complete match            =  50.00",
        "Average crossing          =   0.50",
        "No crossing               =  50.00",
        "2 or less crossing        = 100.00",
        "Tagging accuracy          = 100.00",
        "",
    ]
    assert lines[16:] == ["-- len<=40 --", *lines[3:15]]


def table(*lines: str) -> str:
    return "\n".join((TABLE_HEAD, *lines, *totals_lines(score(GOLD).all), "")) + "\n"


def test_constituents_are_read_from_the_table_again(tmp_path: Path) -> None:
    """Breaks if a sentence that does not count brings the figures that its line has."""
    pairs = [(GOLD, GOLD), (GOLD, PREDICTED), (GOLD, "(NN a)"), (GOLD, ""), (GOLD, GOLD + ")")]
    scores = [score_sentence(*pair) for pair in pairs]
    assert [each.status for each in scores] == [0, 0, 1, 2, 1] and scores[-1].matched
    path = tmp_path / "evalb.txt"
    path.write_text(table(*(sentence_line(9_998 + k, each) for k, each in enumerate(scores))))
    nothing = (0, 0, 0)
    assert read_constituents(path) == [(4, 4, 4), (2, 4, 4), nothing, nothing, nothing]

    for text, message in (("=== Summary ===\n", ": expected"), (table("   1    5    0"), ":4: ")):
        path.write_text(text)
        with pytest.raises(ValueError, match=f"evalb.txt{message}"):
            read_constituents(path)

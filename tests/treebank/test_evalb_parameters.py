"""EVALB's parameter files, and the quotes that QUOTE_LABEL puts back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fairseq_aiayn.treebank.evalb import (
    COLLINS,
    NEW,
    Parameters,
    Status,
    find_parameters,
    read_parameters,
    score_sentence,
)

QUOTES = replace(COLLINS, quote_labels=frozenset({"``", "''", "POS", "NN"}))

LABELS = "TOP -NONE- , : `` '' ."
COLLINS_LINES = (
    "## the rules of published scores ##\nDEBUG 0\nMAX_ERROR 10\nCUTOFF_LEN 40\nLABELED 1\n\n"
    + "".join(f"DELETE_LABEL {label}\n" for label in LABELS.split())
    + "DELETE_LABEL_FOR_LENGTH -NONE-\nEQ_LABEL ADVP PRT\n# EQ_WORD colour color\n"
)
NEW_LINES = COLLINS_LINES + "".join(
    [f"DELETE_LABEL {label}\n" for label in ["S1", "?", "!"]]
    + [f"QUOTE_LABEL {label}\n" for label in ["``", "''", "POS", "NN", "CD", "VBZ", ":"]]
)


def test_a_file_hides_evalbs_own_parameters_and_a_directory_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "new").mkdir()
    (tmp_path / "COLLINS").write_text(NEW_LINES)
    assert find_parameters("new") == NEW
    assert find_parameters("COLLINS") == replace(NEW, name="COLLINS")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "rules.prm"


def test_parameters_with_a_name_are_what_such_a_file_says(file: Path) -> None:
    for content, expected in ((COLLINS_LINES.replace("\n", " \t\r\n"), COLLINS), (NEW_LINES, NEW)):
        file.write_text(content, newline="")
        assert read_parameters(file) == replace(expected, name="rules.prm")


def test_every_keyword_has_its_place_and_without_one_nothing_is_deleted(file: Path) -> None:
    file.write_text("")
    assert read_parameters(file) == Parameters("rules.prm", labeled=True, cutoff=40)
    file.write_text(
        "LABELED 0\nCUTOFF_LEN 10\nQUOTE_LABEL POS\nQUOTE_LABEL ''\n"
        "EQ_WORD a the\nEQ_LABEL NP NX\nEQ_LABEL S SINV\nDELETE_LABEL_FOR_LENGTH ,\n"
    )
    assert read_parameters(file) == Parameters(
        name="rules.prm",
        deleted_for_length=frozenset({","}),
        quote_labels=frozenset({"POS", "''"}),
        equal_labels=(("NP", "NX"), ("S", "SINV")),
        equal_words=(("a", "the"),),
        labeled=False,
        cutoff=10,
    )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"DELETE_WORD the", "unknown keyword 'DELETE_WORD'"),
        (b"EQ_LABEL ADVP", r"2 .* EQ_LABEL, got 'ADVP'"),
        (b"LABELED -1", "number.* LABELED, got '-1'"),
    ],
)
def test_a_wrong_line_is_named(file: Path, line: bytes, message: str) -> None:
    file.write_bytes(b"CUTOFF_LEN 40\n" + line + b"\n")
    with pytest.raises(ValueError, match=rf"rules.prm:2: .*{message}"):
        read_parameters(file)


POSSESSIVE = "(S (NP (NN dogs) (POS ')) (VP (VB bark)))"  # S 0-3, NP 0-2, VP 2-3


@pytest.mark.parametrize("swapped", [False, True])
def test_a_quote_deleted_on_one_side_is_put_back(swapped: bool) -> None:
    quoted = POSSESSIVE.replace("POS", "''")
    pair = (quoted, POSSESSIVE) if swapped else (POSSESSIVE, quoted)
    assert score_sentence(*pair).status is Status.ERROR
    scored = score_sentence(*pair, QUOTES)
    assert scored.matched == scored.gold == scored.predicted == ("S", "NP", "VP")
    assert (scored.words, scored.correct_tags) == (3, 2)


def test_quotes_behind_one_that_is_put_back_move() -> None:
    gold = "(S (POS ') (NP (NN dogs) (POS ')) (VP (VB bark)) (POS '))"
    scored = score_sentence(gold, gold.replace("POS", "''"), QUOTES)
    assert scored.matched == scored.gold == scored.predicted == ("S", "NP", "VP")
    assert (scored.words, scored.correct_tags) == (5, 2)
    # NP 1-3 and VP 3-4 in gold; the predicted NP leaves the second quote to the VP
    other = "(S ('' ') (NP (NN dogs)) (VP ('' ') (VB bark)) ('' '))"
    assert score_sentence(gold, other, QUOTES).matched == ("S",)


def test_quotes_stay_away_where_the_numbers_of_words_agree() -> None:
    gold = "(S ('' ') (NP (NN a) (POS ')) (VP (VB b)))"
    predicted = "(S (POS ') (NP (NN a) ('' ')) (VP (VB b)))"
    assert score_sentence(gold, predicted, QUOTES).reason == "the word \"'\" where gold has 'a'"


def test_of_different_quotes_in_a_row_the_first_is_put_back_twice() -> None:
    """This is no sensible rule, but it is the behaviour of the C program."""
    gold = "(S (`` ') ('' {}) (NP (NN a)))"
    predicted = "(S (POS ') (POS {}) (NP (NN a)))"
    assert score_sentence(gold.format("'"), predicted.format("'"), QUOTES).words == 3
    scored = score_sentence(gold.format('"'), predicted.format('"'), QUOTES)
    assert scored.reason == "the word '\"' where gold has \"'\""


def test_only_plain_quotes_are_put_back() -> None:
    gold = "(S (NP (NN dogs) (POS ``)) (VP (VB bark)))"
    assert score_sentence(gold, gold.replace("POS", "''"), QUOTES).status is Status.ERROR

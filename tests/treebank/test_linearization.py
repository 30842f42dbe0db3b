"""From a tree to a sequence and back: exact both ways; a sequence that is not a tree is refused."""

from __future__ import annotations

import pytest
from faults import fault_of
from hypothesis import given
from invented_trees import chain, forms, normalized

from fairseq_aiayn.treebank.linearization import (
    delinearize,
    linearize,
    punctuation_tag,
    source_text,
)
from fairseq_aiayn.treebank.trees import (
    MAX_DEPTH,
    Constituent,
    Word,
    parse_trees,
    words_of,
    write_tree,
)


def words_in(tree: Constituent) -> list[str]:
    return [word.form for word in words_of(tree)]


@pytest.fixture
def tree() -> Constituent:
    text = b"(TOP (S (NP (DT the) (NN board)) (VP (VBD met))) (. .))"
    return next(parse_trees([text], "t.mrg"))


def test_a_tree_becomes_labelled_brackets_around_tags_or_xx(tree: Constituent) -> None:
    assert " ".join(linearize(tree, "pos")) == "(S (NP DT NN )NP (VP VBD )VP )S ."
    assert " ".join(linearize(tree, "XX")) == "(S (NP XX XX )NP (VP XX )VP )S XX"


@given(normalized)
def test_delinearizing_is_the_inverse_of_linearizing(tree: Constituent) -> None:
    assert delinearize(linearize(tree, "pos"), words_in(tree)) == tree


@given(normalized)
def test_under_xx_only_the_tags_are_lost(tree: Constituent) -> None:
    symbols = linearize(tree, "XX")
    found = delinearize(symbols, words_in(tree))
    assert linearize(found, "XX") == symbols
    assert words_in(found) == words_in(tree)
    assert {word.tag for word in words_of(found)} <= {"XX", ",", ".", ":", "``", "''"}


def test_words_may_stand_under_the_root() -> None:
    words = (Word("DT", "the"), Word("NN", "board"))
    assert delinearize(["DT", "NN"], ["the", "board"]) == Constituent("TOP", words)


def test_a_gold_tag_that_is_xx_is_not_kept_for_punctuation() -> None:
    tree = Constituent("TOP", (Word("XX", "board"), Word("XX", ",")))
    found = delinearize(linearize(tree, "pos"), ["board", ","])
    assert words_of(found) == [Word("XX", "board"), Word(",", ",")]


def test_punctuation_has_its_tag_under_xx() -> None:
    words = ["``", "The", "board", "--", "it", "met", "?", "''"]
    found = delinearize(["XX"] * 8, words)
    assert [word.tag for word in words_of(found)] == ["``", "XX", "XX", ":", "XX", "XX", ".", "''"]


@pytest.mark.parametrize(
    ("tag", "those"),
    [
        (",", [","]),
        (".", [".", "?", "!"]),
        (":", [":", ";", "--", "–", "—", "...", "…"]),
        ("``", ["``", "`", "“", "‘"]),
        ("''", ["''", '"', "”"]),
        (None, ["-", "'", "’", "-LRB-", "(", "%", "$", "a.", "'s", ""]),
    ],
)
def test_punctuation_has_the_tag_that_scoring_leaves_out(tag: str | None, those: list[str]) -> None:
    assert [punctuation_tag(form) for form in those] == [tag] * len(those)


@pytest.mark.parametrize(
    ("symbols", "message"),
    [
        ("", "must have a symbol for each of the 2 words, has 0"),
        ("(S DT )S", "must have a symbol for each of the 2 words, has 1"),
        ("(S DT NN )S NN", "symbol 5: must be for one of 2 words, NN comes after the last"),
        ("(S DT NN", "(S is not closed at the end"),
        ("(S DT (NP NN )NP", "(S is not closed at the end"),
        ("(S DT (NP NN )S )NP", "symbol 5: must close NP first, got )S"),
        ("DT )S NN", "symbol 2: )S closes what is not open"),
        ("DT NN )TOP", "symbol 3: )TOP closes what is not open"),
        ("(S DT NN )S )S", "symbol 5: )S closes what is not open"),
        ("(S DT (NP )NP NN )S", "symbol 4: )NP closes a constituent without a word"),
        ("DT ( NN", "symbol 2: must be a bracket with a label, a tag or XX, got '('"),
        ("DT ) NN", "symbol 2: must be a bracket with a label, a tag or XX, got ')'"),
        ("DT ((S NN", "symbol 2: must be a bracket with a label, a tag or XX, got '((S'"),
        ("DT S) NN", "symbol 2: must be a bracket with a label, a tag or XX, got 'S)'"),
        ("DT <unk>", "symbol 2: must be a bracket with a label, a tag or XX, got '<unk>'"),
        ("DT NN </s>", "symbol 3: must be a bracket with a label, a tag or XX, got '</s>'"),
    ],
)
def test_what_is_no_forest_over_the_words_is_refused(symbols: str, message: str) -> None:
    assert fault_of(delinearize, symbols.split(), ["the", "board"]) == message


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "a tree must have at least one word, got none"),
        (["the", ""], "a word must have no white space, '(' or ')' in it, got ''"),
        (["a b"], "a word must have no white space, '(' or ')' in it, got 'a b'"),
        (["(", "x"], "a word must have no white space, '(' or ')' in it, got '('"),
    ],
)
def test_words_that_cannot_stand_in_a_tree_are_refused(words: list[str], message: str) -> None:
    assert fault_of(delinearize, ["XX"] * len(words), words) == message


def test_a_sequence_may_be_as_deep_as_a_tree_that_can_be_read() -> None:
    deepest = Constituent("TOP", (chain(MAX_DEPTH - 2),))
    found = delinearize(linearize(deepest, "pos"), ["board"])
    (read,) = parse_trees([write_tree(found).encode()], "t.mrg")
    assert write_tree(read) == write_tree(deepest)
    for depth in (MAX_DEPTH - 1, 100_000):
        symbols = linearize(Constituent("TOP", (chain(depth),)), "pos")
        message = "symbol 399: (NP must not be inside 398 constituents"
        assert fault_of(delinearize, symbols, ["board"]) == message


@given(forms)
def test_a_word_is_one_word_of_the_source(form: str) -> None:
    """It stays whole however the text is split at white space. Breaks if it contains the mark of a
    word's beginning, which only the word-piece model may add."""
    text = source_text([form, "board"])
    assert len(text.split()) == len(text.split(" ")) == 2
    assert "\u2581" not in text


def test_the_source_is_the_words_with_spaces() -> None:
    assert source_text(["the", "1\\/2", "a\u2581b", "10\u00a0000"]) == "the 1\\/2 a_b 10_000"

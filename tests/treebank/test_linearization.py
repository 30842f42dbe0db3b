"""From a treebank's tree to a normalized one, to a sequence and back: exact both ways."""

from __future__ import annotations

import pytest
from faults import fault_of
from hypothesis import assume, given
from hypothesis import strategies as st
from invented_trees import chain, forms, normalized, trees

from fairseq_aiayn.treebank.linearization import (
    MAX_DEPTH,
    MAX_OPEN,
    linearize,
    normalize,
    source_text,
)
from fairseq_aiayn.treebank.repair import repair
from fairseq_aiayn.treebank.trees import Constituent, parse_trees, words_of, write_tree

from_treebanks = trees(
    st.sampled_from(["S", "NP-SBJ-1", "NP=2", "-LRB-", "ROOT", "S1", "ADVP|PRT", "NP"]),
    st.sampled_from(["NN", "-NONE-", "."]),
    root="",
)


def parse(text: str) -> Constituent:
    (tree,) = parse_trees([text], "t.mrg")
    return tree


def words_in(tree: Constituent) -> list[str]:
    return [word.form for word in words_of(tree)]


def test_a_tree_becomes_labelled_brackets_around_tags_or_xx() -> None:
    tree = parse("(TOP (S (NP (DT the) (NN board)) (VP (VBD met))) (. .))")
    assert " ".join(linearize(tree, "pos")) == "(S (NP DT NN )NP (VP VBD )VP )S ."
    assert " ".join(linearize(tree, "XX")) == "(S (NP XX XX )NP (VP XX )VP )S XX"


@given(normalized)
def test_repair_is_the_inverse_of_linearizing(tree: Constituent) -> None:
    """Under XX only the tags are lost."""
    assert repair(linearize(tree, "pos"), words_in(tree), keep_tags=True) == (tree, {})
    symbols = linearize(tree, "XX")
    without_tags = repair(symbols, words_in(tree)).tree
    assert linearize(without_tags, "XX") == symbols
    assert words_in(without_tags) == words_in(tree)
    assert {word.tag for word in words_of(without_tags)} <= {"XX", ",", ".", ":", "``", "''"}


def test_words_that_cannot_stand_in_a_tree_are_refused() -> None:
    for words in ([], ["the", ""], ["a b"], ["(", "x"]):
        assert fault_of(repair, ["XX"] * len(words), words).startswith(("a tree must", "a word"))


@given(forms)
def test_a_word_is_one_word_of_the_source(form: str) -> None:
    """It stays whole however the text is split at white space. Breaks if it contains the mark of a
    word's beginning, which only the word-piece model may add."""
    text = source_text([form, "board"])
    assert len(text.split()) == len(text.split(" ")) == 2
    assert "\u2581" not in text
    assert source_text(["1\\/2", "a\u2581b", "10\u00a0000"]) == "1\\/2 a_b 10_000"


@pytest.mark.parametrize(
    ("treebank", "expected"),
    [
        ("( (ROOT-1 (TOP (S1 (S (NN x)))) (. .)))", "(S (NN x)) (. .)"),
        ("( (S (NN x)) (. .) (S (NN y)))", "(S (NN x)) (. .) (S (NN y))"),
        ("(ROOT (NN x))", "(NN x)"),
        ("(S (ROOT (NN x)))", "(S (ROOT (NN x)))"),  # a wrapper only on top
        ("(S (NP-SBJ-1 (NN x)) (NP=2 (NN y)))", "(S (NP (NN x)) (NP (NN y)))"),
        ("(S (-LRB- (-LRB- -LRB-)))", "(S (-LRB- (-LRB- -LRB-)))"),
        ("(S (ADVP|PRT (RP up)) (PRT|ADVP (RP up)))", "(S (ADVP (RP up)) (PRT (RP up)))"),
        ("(S (NP (NN|JJ-x x-y)))", "(S (NP (NN|JJ-x x-y)))"),  # words stay as they are
        ("(S (NP-SBJ (-NONE- *)) (VP (NP (NP (-NONE- *T*))) (VB x)))", "(S (VP (VB x)))"),
    ],
)
def test_one_root_without_function_tags_and_traces(treebank: str, expected: str) -> None:
    assert write_tree(normalize(parse(treebank))) == f"(TOP {expected})"


@pytest.mark.parametrize(
    ("treebank", "collapsed"),
    [
        ("(S (NP-SBJ (NP-1 (NP=2 (NN x)))))", "(S (NP (NN x)))"),
        ("(S (NP (NP (NN x)) (-NONE- *)))", "(S (NP (NN x)))"),
        ("(S (NP (NP (NN x)) (NN y)))", "(S (NP (NP (NN x)) (NN y)))"),
        ("(S (VP (S (VP (VB x)))))", "(S (VP (S (VP (VB x)))))"),
        ("(NN (NN x))", "(NN (NN x))"),  # a word is no constituent
    ],
)
def test_collapsing_makes_one_of_a_label_over_itself_alone(treebank: str, collapsed: str) -> None:
    assert write_tree(normalize(parse(treebank), collapse_unary=True)) == f"(TOP {collapsed})"


@given(from_treebanks, st.booleans())
def test_normalizing_twice_is_normalizing_once(tree: Constituent, collapse_unary: bool) -> None:
    words = [word for word in words_of(tree) if word.tag != "-NONE-"]
    assume(words)
    once = normalize(tree, collapse_unary)
    assert words_of(once) == words
    assert normalize(once, collapse_unary) == once


def test_trees_that_no_sequence_can_stand_for_are_refused() -> None:
    assert "(ROOT (NP (-NONE- *)))" in fault_of(normalize, parse("(ROOT (NP (-NONE- *)))"))
    for tag in ("<unk>", "madeupword0000"):
        message = fault_of(normalize, parse(f"(NP (DT the) ({tag} board))"))
        assert "fairseq's own symbols" in message and message.endswith(tag)
        assert words_of(normalize(parse(f"(NP (NN {tag}))"))) == [("NN", tag)]


def test_the_deepest_tree_has_a_sequence_and_a_deeper_one_none() -> None:
    """TOP and words have brackets too."""
    deepest = normalize(chain(MAX_OPEN))
    assert write_tree(deepest).count("(") == MAX_DEPTH
    symbols = linearize(deepest, "pos")
    assert write_tree(repair(symbols, ["board"]).tree) == write_tree(deepest)
    for depth in (MAX_OPEN + 1, 10_000):
        assert "at most 400 brackets" in fault_of(normalize, chain(depth))

"""Normalization of trees: what is removed, what stays, and that a second pass changes nothing."""

from __future__ import annotations

import pytest
from faults import fault_of
from hypothesis import assume, given
from hypothesis import strategies as st
from invented_trees import chain, trees

from fairseq_aiayn.treebank.linearization import category, normalize
from fairseq_aiayn.treebank.trees import MAX_DEPTH, Constituent, parse_trees, words_of, write_tree

as_found = trees(
    st.sampled_from(["S", "NP-SBJ-1", "NP=2", "-LRB-", "ROOT", "S1", "ADVP|PRT", "NP"]),
    st.sampled_from(["NN", "-NONE-", "."]),
    root="",
)


def parse(text: str) -> Constituent:
    (tree,) = parse_trees([text.encode()], "t.mrg")
    return tree


@pytest.mark.parametrize(
    ("found", "normalized"),
    [
        ("( (S (NP (NN x))))", "(TOP (S (NP (NN x))))"),
        ("(ROOT (S (NN x)))", "(TOP (S (NN x)))"),
        ("(S1 (S (NN x)))", "(TOP (S (NN x)))"),
        ("(TOP (S (NN x)))", "(TOP (S (NN x)))"),
        ("( (ROOT (TOP (S (NN x)))))", "(TOP (S (NN x)))"),
        ("(ROOT-1 (S (NN x)))", "(TOP (S (NN x)))"),
        ("(ROOT (TOP (S (NN x))) (. .))", "(TOP (S (NN x)) (. .))"),
        ("(S (NN x))", "(TOP (S (NN x)))"),
        ("( (S (NN x)) (. .) (S (NN y)))", "(TOP (S (NN x)) (. .) (S (NN y)))"),
        ("(ROOT (NN x))", "(TOP (NN x))"),
        ("(S (ROOT (NN x)))", "(TOP (S (ROOT (NN x))))"),  # a wrapper only on top
        ("(S (NP-SBJ-1 (NN x)) (NP=2 (NN y)))", "(TOP (S (NP (NN x)) (NP (NN y))))"),
        ("(S (-LRB- (-LRB- -LRB-)))", "(TOP (S (-LRB- (-LRB- -LRB-))))"),
        ("(S (ADVP|PRT (RP up)) (PRT|ADVP (RP up)))", "(TOP (S (ADVP (RP up)) (PRT (RP up))))"),
        ("(S (NP (NN|JJ-x x-y)))", "(TOP (S (NP (NN|JJ-x x-y))))"),  # words stay as they are
        ("(S (NP-SBJ (-NONE- *)) (VP (NP (NP (-NONE- *T*))) (VB x)))", "(TOP (S (VP (VB x))))"),
        ("(S (NP (NP (NN x))))", "(TOP (S (NP (NP (NN x)))))"),
    ],
)
def test_one_root_without_function_tags_and_traces(found: str, normalized: str) -> None:
    assert write_tree(normalize(parse(found))) == normalized


@pytest.mark.parametrize(
    ("found", "collapsed"),
    [
        ("(S (NP (NP (NN x))))", "(TOP (S (NP (NN x))))"),
        ("(S (NP-SBJ (NP-1 (NP=2 (NN x)))))", "(TOP (S (NP (NN x))))"),
        ("(S (NP (NP (NN x)) (-NONE- *)))", "(TOP (S (NP (NN x))))"),
        ("(S (NP (NP (NN x)) (NN y)))", "(TOP (S (NP (NP (NN x)) (NN y))))"),
        ("(S (VP (S (VP (VB x)))))", "(TOP (S (VP (S (VP (VB x))))))"),
        ("(NN (NN x))", "(TOP (NN (NN x)))"),  # a word is no constituent
    ],
)
def test_collapsing_makes_one_of_a_label_over_itself_alone(found: str, collapsed: str) -> None:
    assert write_tree(normalize(parse(found), collapse_unary=True)) == collapsed


@given(as_found, st.booleans())
def test_normalising_twice_is_normalising_once(tree: Constituent, collapse_unary: bool) -> None:
    words = [word for word in words_of(tree) if word.tag != "-NONE-"]
    assume(words)
    once = normalize(tree, collapse_unary)
    assert words_of(once) == words
    assert normalize(once, collapse_unary) == once


@pytest.mark.parametrize(
    ("label", "expected"),
    [("NP", "NP"), ("S-NOM=1", "S"), ("-NONE-", "-NONE-"), ("=2", "=2"), ("", ""), ("X-|", "X")],
)
def test_a_category_is_what_stands_before_the_function_tags(label: str, expected: str) -> None:
    assert category(label) == expected


def test_a_tree_of_traces_is_refused() -> None:
    rule = "a tree must have a word besides traces, has none"
    message = fault_of(normalize, parse("(ROOT (NP (-NONE- *)))"))
    assert message == f"{rule}: (ROOT (NP (-NONE- *)))"
    message = fault_of(normalize, parse(f"(NP (-NONE- {'*' * 100}))"))
    assert message.endswith(f"none: (NP (-NONE- {'*' * 48}...")


@pytest.mark.parametrize("tag", ["<unk>", "<s>", "madeupword0000"])
def test_a_tag_that_delinearizing_would_not_take_is_refused(tag: str) -> None:
    for _ in range(2):  # not only the first time
        message = fault_of(normalize, parse(f"(NP (DT the) ({tag} board))"))
        assert message == f"a tag must not look like fairseq's own symbols, got {tag}"
    assert words_of(normalize(parse(f"(NP (NN {tag}))"))) == [("NN", tag)]


def test_a_normalized_tree_can_be_read_again() -> None:
    """TOP and words have brackets too; a tree that is too deep because of them is refused."""
    deepest = normalize(chain(MAX_DEPTH - 2))
    assert write_tree(parse(write_tree(deepest))) == write_tree(deepest)
    for depth in (MAX_DEPTH - 1, 10_000):
        message = "a tree must have at most 400 brackets inside each other, TOP and the word's"
        assert fault_of(normalize, chain(depth)) == f"{message} too"

"""From a treebank's tree to a normalized one, to a sequence and back: exact both ways."""

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


@given(normalized)
def test_repair_is_the_inverse_of_linearizing(tree):
    """Under XX only the tags are lost."""
    assert repair(linearize(tree, "pos"), words_in(tree), keep_tags=True) == (tree, {})
    symbols = linearize(tree, "XX")
    without_tags = repair(symbols, words_in(tree)).tree
    assert linearize(without_tags, "XX") == symbols
    assert words_in(without_tags) == words_in(tree)
    assert {word.tag for word in words_of(without_tags)} <= {"XX", ",", ".", ":", "``", "''"}


@given(forms)
def test_a_word_is_one_word_of_the_source(form):
    """Breaks if it is split at white space, or contains the mark of a word's beginning, which only
    the word-piece model may add."""
    text = source_text([form, "board"])
    assert len(text.split()) == len(text.split(" ")) == 2
    assert "\u2581" not in text
    assert source_text(["1\\/2", "a\u2581b", "10\u00a0000"]) == "1\\/2 a_b 10_000"


@pytest.mark.parametrize(
    ("treebank", "expected", "collapsed"),  # "": the same
    [
        ("( (ROOT-1 (TOP (S1 (S (NN x)))) (. .)))", "(S (NN x)) (. .)", ""),
        ("(S (ROOT (NN x)))", "(S (ROOT (NN x)))", ""),  # a wrapper only on top
        ("(S (NP-SBJ-1 (NN x)) (NP=2 (NN y)))", "(S (NP (NN x)) (NP (NN y)))", ""),
        ("(S (-LRB- (-LRB- -LRB-)))", "(S (-LRB- (-LRB- -LRB-)))", ""),
        ("(S (ADVP|PRT (NN|JJ-x x-y)))", "(S (ADVP (NN|JJ-x x-y)))", ""),  # words stay
        ("(S (NP-SBJ (-NONE- *)) (VP (NP (NP (-NONE- *))) (VB x)))", "(S (VP (VB x)))", ""),
        ("(NP (NP-1 (NP=2 (NN x)) (-NONE- *)))", "(NP (NP (NP (NN x))))", "(NP (NN x))"),
        ("(S (NP (NP (NN x)) (NN y)))", "(S (NP (NP (NN x)) (NN y)))", ""),
        ("(S (VP (S (VP (VB x)))))", "(S (VP (S (VP (VB x)))))", ""),
        ("(NN (NN x))", "(NN (NN x))", ""),  # a word is no constituent
    ],
)
def test_one_root_without_function_tags_and_traces(treebank, expected, collapsed):
    """Collapsing makes one constituent of a label over itself alone."""
    tree = parse(treebank)
    assert write_tree(normalize(tree)) == f"(TOP {expected})"
    assert write_tree(normalize(tree, collapse_unary=True)) == f"(TOP {collapsed or expected})"


@given(from_treebanks, st.booleans())
def test_normalizing_twice_is_normalizing_once(tree, collapse_unary):
    words = [word for word in words_of(tree) if word.tag != "-NONE-"]
    assume(words)
    once = normalize(tree, collapse_unary)
    assert words_of(once) == words
    assert normalize(once, collapse_unary) == once


def test_what_no_sequence_can_stand_for_is_refused():
    """The deepest tree has a sequence; TOP and words have brackets too."""
    deepest = normalize(chain(MAX_OPEN))
    assert write_tree(deepest).count("(") == MAX_DEPTH
    assert repair(linearize(deepest, "pos"), ["board"]) == (deepest, {})
    for tree in (chain(MAX_OPEN + 1), chain(10_000), parse("(ROOT (NP (-NONE- *)))")):
        fault_of(normalize, tree)
    for symbol in ("<unk>", "madeupword0000"):  # fairseq's own
        fault_of(normalize, parse(f"(NP (DT the) ({symbol} board))"))
        assert words_of(normalize(parse(f"(NP (NN {symbol}))"))) == [("NN", symbol)]
    for words in ([], ["the", ""], ["a b"], ["(", "x"]):
        fault_of(repair, ["XX"] * len(words), words)

"""The uses of nltk: words as in the Penn Treebank, and drawings of trees."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from invented_trees import WHITE_SPACE, chain, normalized

from fairseq_aiayn.treebank.linearization import delinearize, require_words
from fairseq_aiayn.treebank.trees import (
    MAX_DEPTH,
    Constituent,
    as_nltk,
    penn_words,
    pretty,
    words_of,
    write_tree,
)


@pytest.mark.parametrize(
    ("sentence", "words"),
    [
        ("The board can't meet.", "The board ca n't meet ."),
        ('He (really) said "no"!', "He -LRB- really -RRB- said `` no '' !"),
        ("It’s “the” board’s, isn’t it?", "It 's `` the '' board 's , is n't it ?"),
        ("Nov. 29 -- for $ 1/2 [a] year...", "Nov. 29 -- for $ 1/2 -LSB- a -RSB- year ..."),
        ("a\u00a0board\t met\n", "a board met"),
        ("", ""),
        (" \n", ""),
    ],
)
def test_words_are_those_of_the_treebank(sentence: str, words: str) -> None:
    assert penn_words(sentence) == words.split()


@given(st.text(st.characters() | st.sampled_from("()[]{}\"'“”.,-" + WHITE_SPACE)))
def test_words_of_any_sentence_can_stand_in_a_tree(sentence: str) -> None:
    words = penn_words(sentence)
    if words:
        require_words(words)


@given(normalized)
def test_nltk_has_the_same_tree(tree: Constituent) -> None:
    found = as_nltk(tree)
    assert found.leaves() == [word.form for word in words_of(tree)]
    assert found.pformat(margin=10**9) == write_tree(tree)


def test_a_drawing_has_every_label_and_word_in_order() -> None:
    tree = delinearize(["(NP", "DT", "NN", ")NP", "."], ["the", "board", "."])
    rows = pretty(tree).split("\n")
    named = [row.split() for row in rows if not set(row) <= set(" _|")]
    assert named == [["TOP"], ["NP", "|"], ["DT", "NN", "."], ["the", "board", "."]]


def test_the_deepest_tree_is_drawn() -> None:
    assert pretty(Constituent("TOP", (chain(MAX_DEPTH - 2),))).count("NP") == MAX_DEPTH - 2

"""Reading trees: every layout of treebanks, and the faults that are refused, with their place; and
the uses of nltk."""

import gzip
import re
from collections.abc import Iterator

import pytest
from faults import fault_of
from hypothesis import given
from hypothesis import strategies as st
from invented_trees import WHITE_SPACE, chain, labels, tags, trees

from fairseq_aiayn.treebank.linearization import MAX_OPEN, require_words
from fairseq_aiayn.treebank.trees import (
    Constituent,
    input_files,
    parse_trees,
    penn_words,
    pretty,
    read_trees,
    words_of,
    write_tree,
)


def parse(text: str) -> list[Constituent]:
    """The trees of a text, which is split into lines like a file."""
    return list(parse_trees(text.splitlines(keepends=True), "t.mrg"))


@given(st.lists(trees(labels, tags), max_size=3), st.randoms(use_true_random=False))
def test_what_is_written_is_read_in_any_layout(found, random):
    """Any white space, or none next to a bracket; several trees on a line, and trees over several
    lines."""
    text, last = "", "("
    for token in re.findall(r"[()]|[^() ]+", " ".join(map(write_tree, found))):
        space = random.choice(["", " ", "\n", "\t", "\r\n", "\f\v  "])
        between_atoms = last not in "()" and token not in "()"
        text += (space or " " * between_atoms) + token
        last = token
    assert list(parse_trees(re.split("(?<=\n)", text), "t.mrg")) == found


def test_a_tree_is_given_out_as_soon_as_it_is_closed():
    """Breaks if memory grows with the file, or if a fault takes the trees before it."""

    def lines() -> Iterator[str]:
        yield "(S (A b))\n"
        raise AssertionError("read ahead")

    assert write_tree(next(parse_trees(lines(), "t.mrg"))) == "(S (A b))"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("(S (A b))\n\n(S (NP\n(A b))\n", 3),  # not closed: where it begins
        ("(S (A b)))", 1),
        ("(S (\n(NP (A b))\n))", 3),  # a bracket without a label
        ("(S (A b)\n( ))", 2),  # neither a word nor brackets
        ("(S (NP (A b) the\n))", 2),  # both
        ("(S (A b))\n(S (A b)) the", 2),
        ("(A\n\nb)", 3),  # a word without a constituent around it
    ],
)
def test_malformed_trees_are_refused_with_their_line(text, line):
    assert fault_of(parse, text).startswith(f"t.mrg:{line}: ")


def test_a_directory_is_read_in_order_of_paths(tmp_path):
    contents = {
        "03/c.mrg": b"(S (A 4))",
        "02/b.mrg.gz": gzip.compress(b"(S (A 2))"),
        "02/a.ptb": b"(S (A 1))",
        "02/c/WSJ_0201.MRG": b"(S (A 3))",
        "04/e.mrg/README": b"not a tree",
    }
    for name, content in contents.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    trees = [tree for file in input_files(tmp_path) for tree in read_trees(file)]
    assert [word.form for tree in trees for word in words_of(tree)] == list("1234")
    assert str(tmp_path / "04/e.mrg") in fault_of(input_files, tmp_path / "04/e.mrg")


def test_words_are_those_of_the_treebank():
    words = penn_words('He\t(really) said “no” and "I can\'t"\u00a0!\n')
    assert " ".join(words) == "He -LRB- really -RRB- said `` no '' and `` I ca n't '' !"


@given(st.text(st.characters() | st.sampled_from("()[]{}\"'“”.,-" + WHITE_SPACE)))
def test_words_of_any_sentence_can_stand_in_a_tree(sentence):
    words = penn_words(sentence)
    if words:
        require_words(words)


def test_a_drawing_has_every_label_and_word_in_order():
    (tree,) = parse("(TOP (NP (DT the) (NN board)) (. .))")
    rows = pretty(tree).split("\n")
    named = [row.split() for row in rows if not set(row) <= set(" _|")]
    assert named == [["TOP"], ["NP", "|"], ["DT", "NN", "."], ["the", "board", "."]]
    assert pretty(Constituent("TOP", (chain(MAX_OPEN),))).count("NP") == MAX_OPEN


def test_the_german_tag_of_brackets_and_brackets_under_it_are_escaped():
    (tree,) = parse("(S ($( () (NN a) ($( )) ($(  -) ($ $) ($. .))")
    assert write_tree(tree) == ("(S ($*LRB* -LRB-) (NN a) ($*LRB* -RRB-) ($*LRB* -) ($ $) ($. .))")

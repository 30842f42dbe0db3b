"""Reading trees: every layout of treebanks, and the faults that are refused, with their place."""

from __future__ import annotations

import gzip
import io
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from faults import fault_of
from hypothesis import given
from hypothesis import strategies as st
from invented_trees import chain, labels, tags, trees

from fairseq_aiayn.treebank import trees as treebank_trees
from fairseq_aiayn.treebank.trees import (
    MAX_DEPTH,
    Constituent,
    Word,
    parse_trees,
    read_trees,
    words_of,
    write_tree,
)

TREE = b"(S (NP (DT the) (NN board)) (VP (VBD met)))\n"


def parse(text: str | bytes) -> list[Constituent]:
    """The trees of a text, which is split into lines like a file."""
    content = text.encode() if isinstance(text, str) else text
    return list(parse_trees(io.BytesIO(content), "t.mrg"))


@given(st.lists(trees(labels, tags), max_size=3), st.randoms(use_true_random=False))
def test_what_is_written_is_read_in_any_layout(found: list[Constituent], random) -> None:
    """Any white space, or none next to a bracket; several trees on a line, and trees over several
    lines."""
    text, last = "", "("
    for token in re.findall(r"[()]|[^() ]+", " ".join(map(write_tree, found))):
        space = random.choice(["", " ", "\n", "\t", "\r\n", "\f\v  "])
        between_atoms = last not in "()" and token not in "()"
        text += (space or " " * between_atoms) + token
        last = token
    assert parse(text) == found


def test_treebank_layout_is_read() -> None:
    tree = parse(
        "( (S \n    (NP-SBJ (DT the) (NN board) )\n    (VP (VBD met) (PP-TMP=2 (-NONE- *T*-1)))\n"
        "    (. .) ))\n"
    )
    inside = Constituent(
        "S",
        (
            Constituent("NP-SBJ", (Word("DT", "the"), Word("NN", "board"))),
            Constituent(
                "VP", (Word("VBD", "met"), Constituent("PP-TMP=2", (Word("-NONE-", "*T*-1"),)))
            ),
            Word(".", "."),
        ),
    )
    assert tree == [Constituent("", (inside,))]


@pytest.mark.parametrize("root", ["", "ROOT", "TOP", "S"])
def test_a_root_keeps_its_label_and_all_its_children(root: str) -> None:
    children = (Word("UH", "oh"), Constituent("NP", (Word("NN", "board"),)), Word(".", "."))
    assert parse(f"({root} (UH oh) (NP (NN board)) (. .))") == [Constituent(root, children)]


def test_escapes_and_odd_characters_are_part_of_a_word() -> None:
    """str.split takes these for white space, and str.splitlines takes them for line ends."""
    forms = ["-LRB-", "1\\/2", "10\u00a0000", "a\u2028b", "a\u0085b", "\u3000", "\x1c", "\ufeff"]
    text = f"(X {' '.join(f'(NN {form})' for form in forms)})"
    assert [word.form for word in words_of(parse(text)[0])] == forms


def test_a_byte_order_mark_is_dropped_at_the_start_only() -> None:
    assert parse(b"\xef\xbb\xbf" + TREE) == parse(TREE)
    message = "t.mrg:2: text outside of brackets: \ufeff"
    assert fault_of(parse, TREE + b"\xef\xbb\xbf" + TREE) == message


def test_nothing_is_no_tree() -> None:
    assert parse(b"") == parse(b"\n \r\n\n") == []


def test_a_tree_is_given_out_as_soon_as_it_is_closed() -> None:
    """Breaks if memory grows with the file."""

    def lines() -> Iterator[bytes]:
        yield TREE
        raise AssertionError("read ahead")

    assert write_tree(next(parse_trees(lines(), "t.mrg"))) == TREE.decode().rstrip("\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(S (A b))\n\n(S (NP\n(A b))\n", "3: the tree is not closed at the end"),
        ("(", "1: the tree is not closed at the end"),
        ("(S (A", "1: the tree is not closed at the end"),
        ("(S (A b)))", "1: unbalanced: a closing bracket too many"),
        ("\n)", "2: unbalanced: a closing bracket too many"),
        ("(S\n\n((A b)))", "3: a bracket without a label"),
        ("(S (\n(NP (A b))\n))", "1: a bracket without a label"),
        ("()", "1: an empty bracket: ()"),
        ("(S (A b)\n( ))", "2: an empty bracket: ()"),
        ("(S (NP\n))", "1: an empty bracket: (NP)"),
        ("the (S (A b))", "1: text outside of brackets: the"),
        ("(S (A b))\n(S (A b)) the", "2: text outside of brackets: the"),
        ("(S\n(NP the (A b)))", "2: a word and brackets in one bracket: the"),
        ("(S (NP (A b) the\n))", "1: a word and brackets in one bracket: the"),
        ("( (A b) the)", "1: a word and brackets in one bracket: the"),
        ("(S\n(NN the board))", "2: several words in one bracket: the board"),
        ("(S (A b))\n(A b)", "2: a word without a constituent around it: (A b)"),
        ("(A\n\nb)", "3: a word without a constituent around it: (A b)"),
        ("x" * 1000, f"1: text outside of brackets: {'x' * 60}"),
        (b"(S (A b))\n(S (A f\xfcr))", "2: byte 8 (0xfc) is not UTF-8"),
        (b"\x1f\x8b\x08", "1: byte 2 (0x8b) is not UTF-8"),
    ],
)
def test_malformed_trees_are_refused(text: str | bytes, message: str) -> None:
    assert fault_of(parse, text) == f"t.mrg:{message}"


def test_trees_before_a_fault_are_given_out() -> None:
    found = parse_trees(io.BytesIO(TREE + b"(S"), "t.mrg")
    assert next(found) == parse(TREE)[0]
    with pytest.raises(ValueError):
        next(found)


@pytest.mark.parametrize("word", ["(NN board)", "(NN\nboard)"])
def test_brackets_may_be_as_deep_as_the_limit(word: str) -> None:
    around = MAX_DEPTH - 1  # a word has a bracket of its own
    (tree,) = parse("(NP " * around + word + ")" * around)
    assert write_tree(tree) == write_tree(chain(around))
    message = fault_of(parse, "(NP " * MAX_DEPTH + word + ")" * MAX_DEPTH)
    assert message.endswith("deeper than 400 brackets")


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 1_000, 1_000_000])
def test_deep_brackets_are_refused_and_break_nothing(depth: int) -> None:
    assert fault_of(parse, "(S (A b))\n" + "(NP" * depth) == "t.mrg:2: deeper than 400 brackets"


def test_deep_brackets_that_are_closed_are_refused_too() -> None:
    message = fault_of(parse, "(NP " * 1_000 + "(A b)" + ")" * 1_000)
    assert message == "t.mrg:1: deeper than 400 brackets"


def test_a_lost_bracket_does_not_swallow_the_rest_of_a_long_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(treebank_trees, "LONGEST_TREE", 100)
    broken = b"(S\n" + TREE * 98 + b")\n"  # 100 lines
    assert len(parse(TREE + broken + TREE)) == 3
    message = "t.mrg:2: the tree is not closed after 100 lines"
    assert fault_of(parse, TREE + b"(S\n" + TREE * 100) == message


def test_files_are_read_plain_and_packed(tmp_path: Path) -> None:
    plain, packed = tmp_path / "a.mrg", tmp_path / "a.mrg.gz"
    plain.write_bytes(TREE * 2)
    packed.write_bytes(gzip.compress(TREE * 2))
    expected = parse(TREE * 2)
    assert list(read_trees(plain)) == list(read_trees(str(packed))) == expected


def test_a_directory_is_read_in_order_of_paths(tmp_path: Path) -> None:
    contents = {
        "03/c.mrg": b"(S (A 4))",
        "02/b.mrg.gz": gzip.compress(b"(S (A 2))"),
        "02/a.mrg": b"(S (A 1))",
        "02/c/d.mrg": b"(S (A 3))",
        "02/readme.txt": b"not a tree",
        "02/a.mrg.orig": b"not a tree",
        "04/e.mrg/README": b"not a tree",
        "04/WSJ_0401.MRG": b"(S (A 5))",
        "04/WSJ_0402.MRG.GZ": gzip.compress(b"(S (A 6))"),
    }
    for name, content in contents.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    assert [word.form for tree in read_trees(tmp_path) for word in words_of(tree)] == list("123456")


def test_dash_is_standard_input(give: Callable[..., None]) -> None:
    give(TREE + b"(S")
    found = read_trees("-")
    assert next(found) == parse(TREE)[0]
    with pytest.raises(ValueError, match="^standard input:2: the tree is not closed"):
        next(found)


def test_a_directory_without_trees_is_refused(tmp_path: Path) -> None:
    (tmp_path / "readme.txt").write_text("nothing")
    message = f"{tmp_path}: must have *.mrg, *.ptb or those with .gz in it or below, has none"
    assert fault_of(list, read_trees(tmp_path)) == message


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="absent.mrg"):
        list(read_trees(tmp_path / "absent.mrg"))

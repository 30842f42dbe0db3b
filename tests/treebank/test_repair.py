"""Repair of any sequence: the result is always a tree over the words, and every rule works."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from invented_trees import chain, forms, normalized

from fairseq_aiayn.treebank.linearization import MAX_OPEN, linearize
from fairseq_aiayn.treebank.repair import REPAIRS, RepairReport, Rule, repair
from fairseq_aiayn.treebank.trees import (
    Constituent,
    Word,
    parse_trees,
    words_of,
    write_tree,
)

MISSING_AND_UNCLOSED = {"missing words": 1, "unclosed": 1}

sequences = st.lists(
    st.sampled_from(["(S", "(NP", "(VP", ")S", ")NP", ")VP", "NN", "DT", "XX"])
    | st.sampled_from(["(", ")", "((S", "S)", "(S)", "<unk>", "</s>", "<<unk>>", "", " ", "a b"])
    | st.text(max_size=3),
    max_size=30,
)
sentences = st.lists(forms, min_size=1, max_size=6)


@given(sequences, sentences)
def test_any_sequence_becomes_a_tree_over_exactly_the_words(
    symbols: list[str], words: list[str]
) -> None:
    tree, repairs = repair(symbols, words)
    assert [word.form for word in words_of(tree)] == words
    assert list(parse_trees([write_tree(tree)], "t.mrg")) == [tree]
    assert list(repairs) == [name for name in REPAIRS if name in repairs]
    assert all(count > 0 for count in repairs.values())


@given(sequences, sentences)
def test_what_is_repaired_needs_no_repair(symbols: list[str], words: list[str]) -> None:
    tree = repair(symbols, words).tree
    again = repair(linearize(tree, "pos"), words)
    assert again.repairs == {}
    assert linearize(again.tree, "pos") == linearize(tree, "pos")


@given(sequences, sentences)
def test_what_is_no_tree_over_the_words_is_counted(symbols: list[str], words: list[str]) -> None:
    repaired = repair(symbols, words, keep_tags=True)
    assert repaired.well_formed == (linearize(repaired.tree, "pos") == symbols)


@given(normalized)
def test_of_a_well_formed_sequence_only_punctuation_tags_change(tree: Constituent) -> None:
    found = repair(linearize(tree, "pos"), [word.form for word in words_of(tree)])
    assert found.well_formed and linearize(found.tree, "XX") == linearize(tree, "XX")
    changed = sum(a != b for a, b in zip(words_of(tree), words_of(found.tree), strict=True))
    assert found.repairs == ({Rule.PUNCTUATION_TAGS: changed} if changed else {})


@given(st.sampled_from(["PU", "$.", "$,", "$*LRB*", "NOUN", "PONCT", "NN-SB"]), sentences)
def test_tags_of_other_treebanks_stay(tag: str, words: list[str]) -> None:
    """English rules would make XX of a German comma, or of a comma that is tagged "." as in the
    universal tags. Alternatives of Penn tags are Penn tags."""
    symbols = ["(S", tag, *["."] * (len(words) - 1), ")S"]
    found = repair(symbols, words)
    assert (linearize(found.tree, "pos"), found.repairs) == (symbols, {})
    assert repair(["NN|JJ", "NN"], ["a", ","]).repairs == {Rule.PUNCTUATION_TAGS: 1}


@pytest.mark.parametrize(
    ("tag", "those"),
    [
        (",", [","]),
        (".", [".", "?", "!"]),
        (":", [":", ";", "--", "–", "—", "...", "…"]),
        ("``", ["``", "`", "“", "‘"]),
        ("''", ["''", '"', "”"]),
        ("XX", ["-", "'", "’", "-LRB-", "%", "$", "a.", "'s"]),
    ],
)
def test_xx_becomes_the_tag_that_scoring_leaves_out(tag: str, those: list[str]) -> None:
    tree, repairs = repair(["XX"] * len(those), those)
    assert ([word.tag for word in words_of(tree)], repairs) == ([tag] * len(those), {})
    kept = repair(["XX"] * len(those), those, keep_tags=True).tree
    assert {word.tag for word in words_of(kept)} == {"XX"}


@pytest.mark.parametrize(
    ("tag", "form", "fitting"),
    [
        ("NN", ",", ","),  # EVALB would count it
        ("NN", "?", "."),
        (":", ",", ":"),  # deleted with either tag
        (",", "board", "XX"),  # EVALB would delete it
        ("NN", "board", "NN"),
        ("''", "'", "''"),  # a quotation mark or a possessive: the model decides
        ("POS", "'", "POS"),
        *((tag, dash, tag) for tag in ("HYPH", ":") for dash in ("-", "--", "—")),
        (":", "%", "XX"),  # neither a letter nor a digit, but never deleted in gold
        ("-NONE-", "board", "XX"),  # a trace's tag would delete the word
        ("TOP", "--", "XX"),
        ("-NONE-", ",", ","),
    ],
)
def test_evalb_deletes_punctuation_and_nothing_else(tag: str, form: str, fitting: str) -> None:
    """Breaks if a sequence that is off by one tag makes the sentence an error for EVALB."""
    repaired = repair(["(NP", "DT", tag, ")NP"], ["the", form])
    assert words_of(repaired.tree)[1] == Word(fitting, form)
    assert repaired.repairs == ({Rule.PUNCTUATION_TAGS: 1} if fitting != tag else {})


@pytest.mark.parametrize(
    ("symbols", "tree", "repairs"),
    [
        ("(S DT NN )S", "(TOP (S (DT the) (NN board)))", {}),
        # words without symbols: into the open constituent, else into the last child of TOP
        ("(S (NP DT", "(TOP (S (NP (DT the) (XX board))))", {"missing words": 1, "unclosed": 2}),
        ("(S (NP DT )NP )S", "(TOP (S (NP (DT the)) (XX board)))", {"missing words": 1}),
        ("DT", "(TOP (DT the) (XX board))", {"missing words": 1}),
        ("(NP DT )NP (VP", "(TOP (NP (DT the)) (VP (XX board)))", MISSING_AND_UNCLOSED),
        ("", "(TOP (XX the) (XX board))", {"missing words": 2}),
        # symbols without words
        ("(S DT NN NN )S NN", "(TOP (S (DT the) (NN board)))", {"surplus words": 2}),
        (
            "DT NN (NP NN )NP",
            "(TOP (DT the) (NN board))",
            {"surplus words": 1, "empty constituents": 1},
        ),
        # brackets that do not match
        ("(S (VP (NP DT )S NN", "(TOP (S (VP (NP (DT the)))) (NN board))", {"unclosed": 2}),
        ("(S (NP DT )VP NN )S", "(TOP (S (NP (DT the)) (NN board)))", {"mismatched": 1}),
        (")S DT NN )NP", "(TOP (DT the) (NN board))", {"surplus brackets": 2}),
        ("(NP (NP DT )NP NN )NP", "(TOP (NP (NP (DT the)) (NN board)))", {}),
        # constituents without words, alone and nested
        ("DT NN (S (NP )NP )S", "(TOP (DT the) (NN board))", {"empty constituents": 2}),
        ("DT NN (S", "(TOP (DT the) (NN board))", {"unclosed": 1, "empty constituents": 1}),
        # not symbols of a tree
        ("(S <unk> DT ( ) NN )S </s>", "(TOP (S (DT the) (NN board)))", {"unknown symbols": 4}),
    ],
)
def test_each_repair_does_what_its_rule_says(
    symbols: str, tree: str, repairs: dict[str, int]
) -> None:
    found = repair(symbols.split(), ["the", "board"])
    assert write_tree(found.tree) == tree
    assert found.repairs == repairs
    assert found.well_formed == (not repairs)


def test_a_missing_word_gets_the_tag_of_its_punctuation() -> None:
    assert write_tree(repair(["XX"], [",", "board", "."]).tree) == "(TOP (, ,) (XX board) (. .))"


def test_what_is_too_deep_is_left_out_with_its_closing_brackets() -> None:
    symbols = [*["(NP"] * (MAX_OPEN + 3), "NN", *[")NP"] * (MAX_OPEN + 3)]
    tree, repairs = repair(symbols, ["board"])
    assert write_tree(tree) == write_tree(Constituent("TOP", (chain(MAX_OPEN),)))
    assert repairs == {"too deep": 3}
    garbage = ["(S", "(NP", ")S", "NN"] * 25_000  # breaks if depth of trees is depth of calls
    assert repair(linearize(repair(garbage, ["a", "b"]).tree, "pos"), ["a", "b"]).well_formed
    assert repair(["(S"] * 100_000, ["board"]).repairs["too deep"] == 100_000 - MAX_OPEN
    # what is too deep and not closed counts once
    symbols = ["(S", *["(NP"] * (MAX_OPEN - 1), "(VP", "(VP", "NN", ")S"]
    assert repair(symbols, ["board"]).repairs == {"unclosed": MAX_OPEN - 1, "too deep": 2}
    assert repair(symbols[:-1], ["board"]).repairs == {"unclosed": MAX_OPEN, "too deep": 2}


def test_a_report_adds_up_repairs_and_sentences() -> None:
    report = RepairReport()
    for symbols in ("(S DT NN )S", "(S (NP DT NN", "(S DT NN", "DT NN NN"):
        report.add(repair(symbols.split(), ["the", "board"]))
    none = dict.fromkeys(REPAIRS, 0)
    assert report.as_json() == {
        "sentences": 4,
        "well_formed": 1,
        "repairs": {**none, "unclosed": 3, "surplus words": 1},
        "sentences_with": {**none, "unclosed": 2, "surplus words": 1},
    }
    assert report.lines() == [
        "4 sentences, 1 well-formed (25.00%)",
        "surplus words              1 in 1 sentences",
        "unclosed                   3 in 2 sentences",
    ]
    assert RepairReport().lines() == ["0 sentences, 0 well-formed (0.00%)"]

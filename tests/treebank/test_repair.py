"""Repair of any sequence: the result is always a tree over the words, and every rule works."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from invented_trees import chain, forms, normalized

from fairseq_aiayn.treebank.linearization import MAX_OPEN, linearize
from fairseq_aiayn.treebank.repair import REPAIRS, RepairReport, Rule, repair
from fairseq_aiayn.treebank.trees import Constituent, Word, parse_trees, words_of, write_tree

sequences = st.lists(
    st.sampled_from(["(S", "(NP", "(VP", ")S", ")NP", ")VP", "NN", "DT", "XX"])
    | st.sampled_from(["(", ")", "((S", "S)", "(S)", "<unk>", "</s>", "<<unk>>", "", " ", "a b"])
    | st.text(max_size=3),
    max_size=30,
)
sentences = st.lists(forms, min_size=1, max_size=6)


@given(sequences, sentences)
def test_any_sequence_becomes_a_tree_over_exactly_the_words(symbols, words):
    """That tree needs no repair, and what was no tree over the words is counted."""
    tree, repairs = repair(symbols, words)
    assert [word.form for word in words_of(tree)] == words
    assert list(parse_trees([write_tree(tree)], "t.mrg")) == [tree]
    assert list(repairs) == [name for name in REPAIRS if repairs.get(name, 0) > 0]
    assert repair(linearize(tree, "pos"), words) == (tree, {})
    kept = repair(symbols, words, keep_tags=True)
    assert kept.well_formed == (linearize(kept.tree, "pos") == symbols)


@given(normalized)
def test_of_a_well_formed_sequence_only_punctuation_tags_change(tree):
    found = repair(linearize(tree, "pos"), [word.form for word in words_of(tree)])
    assert found.well_formed and linearize(found.tree, "XX") == linearize(tree, "XX")
    changed = sum(a != b for a, b in zip(words_of(tree), words_of(found.tree), strict=True))
    assert found.repairs == ({Rule.PUNCTUATION_TAGS: changed} if changed else {})


@given(st.sampled_from(["PU", "$.", "$,", "$*LRB*", "NOUN", "PONCT", "NN-SB"]), sentences)
def test_tags_of_other_treebanks_stay(tag, words):
    """English rules would make XX of a German comma, or of a comma that is tagged "." as in the
    universal tags. Alternatives of Penn tags are Penn tags."""
    symbols = ["(S", tag, *["."] * (len(words) - 1), ")S"]
    found = repair(symbols, words)
    assert (linearize(found.tree, "pos"), found.repairs) == (symbols, {})
    assert repair(["NN|JJ", "NN"], ["a", ","]).repairs == {Rule.PUNCTUATION_TAGS: 1}


@pytest.mark.parametrize(
    ("tag", "those", "fitting"),
    [
        ("XX", ",", ","),
        ("XX", ". ? !", "."),
        ("XX", ": ; -- – — ... …", ":"),
        ("XX", "`` ` “ ‘", "``"),
        ("XX", "'' \" ”", "''"),
        ("XX", "- ' ’ -LRB- % $ a. 's", "XX"),
        ("NN", ",", ","),  # EVALB would count it
        (":", ",", ":"),  # deleted with either tag
        (",", "board %", "XX"),  # EVALB would delete it; it never deletes % in gold
        ("NN", "board", "NN"),
        ("''", "'", "''"),  # a quotation mark or a possessive: the model decides
        ("POS", "'", "POS"),
        ("HYPH", "- -- —", "HYPH"),
        (":", "- -- —", ":"),
        ("-NONE-", "board", "XX"),  # a trace's tag would delete the word
        ("TOP", "-- –", ":"),
        ("-NONE-", "' ’ -", "XX"),
        ("-NONE-", ",", ","),
    ],
)
def test_evalb_deletes_punctuation_and_nothing_else(tag, those, fitting):
    """Breaks if a sequence that is off by one tag makes the sentence an error for EVALB. A word
    without a symbol has the tag of one under XX."""
    for form in those.split(" "):
        symbols = ["(NP", "DT", tag, ")NP"]
        tree, repairs = repair(symbols, ["the", form])
        assert words_of(tree)[1] == Word(fitting, form)
        assert repairs == ({Rule.PUNCTUATION_TAGS: 1} if tag not in ("XX", fitting) else {})
        assert linearize(repair(symbols, ["the", form], keep_tags=True).tree, "pos") == symbols
        if tag == "XX":
            assert words_of(repair([], [form]).tree) == [Word(fitting, form)]


@pytest.mark.parametrize(
    ("symbols", "tree", "repairs"),
    [
        # words without symbols: into the open constituent, else into the last child of TOP
        ("(S (NP DT", "(TOP (S (NP (DT the) (XX board))))", {"missing words": 1, "unclosed": 2}),
        ("(S (NP DT )NP )S", "(TOP (S (NP (DT the)) (XX board)))", {"missing words": 1}),
        ("DT", "(TOP (DT the) (XX board))", {"missing words": 1}),
        # symbols without words
        ("(S DT NN NN )S NN", "(TOP (S (DT the) (NN board)))", {"surplus words": 2}),
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
def test_each_repair_does_what_its_rule_says(symbols, tree, repairs):
    found = repair(symbols.split(), ["the", "board"])
    assert (write_tree(found.tree), found.repairs) == (tree, repairs)


def test_what_is_too_deep_is_left_out_with_its_closing_brackets():
    """Breaks if the depth of trees is the depth of calls. What is too deep and not closed counts
    once."""
    symbols = [*["(NP"] * (MAX_OPEN + 3), "NN", *[")NP"] * (MAX_OPEN + 3)]
    assert repair(symbols, ["board"]) == (Constituent("TOP", (chain(MAX_OPEN),)), {"too deep": 3})
    assert repair(["(S"] * 100_000, ["board"]).repairs["too deep"] == 100_000 - MAX_OPEN
    symbols = ["(S", *["(NP"] * (MAX_OPEN - 1), "(VP", "(VP", "NN", ")S"]
    assert repair(symbols, ["board"]).repairs == {"unclosed": MAX_OPEN - 1, "too deep": 2}
    assert repair(symbols[:-1], ["board"]).repairs == {"unclosed": MAX_OPEN, "too deep": 2}


def test_a_report_adds_up_repairs_and_sentences():
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

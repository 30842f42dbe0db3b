"""Trees: read in every layout, normalized, to a sequence and back; repair of any sequence."""

import gzip
import re
from collections.abc import Iterator

import pytest
from faults import fault_of
from hypothesis import assume, example, given
from hypothesis import strategies as st

from fairseq_aiayn.treebank.linearization import (
    MAX_DEPTH,
    MAX_OPEN,
    linearize,
    normalize,
    require_word,
    source_text,
)
from fairseq_aiayn.treebank.repair import REPAIRS, RepairReport, Rule, repair
from fairseq_aiayn.treebank.trees import (
    ROOT_LABEL,
    Constituent,
    Word,
    input_files,
    parse_trees,
    penn_words,
    pretty,
    read_trees,
    words_of,
    write_tree,
)

WHITE_SPACE = " \t\r\n\f\v"
# What str.split, str.splitlines, \s or a piece model take for more than a character of a word
ODD_CHARACTERS = "\u00a0\u2028\u0085\u3000\u2581\ufeff\x1c"

labels = st.sampled_from(["S", "NP", "VP", "PRT", "-LRB-", "TOP"])
tags = st.sampled_from(["NN", "DT", ".", ",", "``", "-LRB-", "PRP$"])
forms = st.sampled_from(["the", "-LRB-", "1\\/2", ",", "''", "<unk>", "XX"]) | st.text(
    st.characters(exclude_characters="()" + WHITE_SPACE, exclude_categories=["Cs"])
    | st.sampled_from(ODD_CHARACTERS),
    min_size=1,
    max_size=3,
)


def trees(labels: st.SearchStrategy, tags: st.SearchStrategy, root=ROOT_LABEL) -> st.SearchStrategy:
    """Trees of these labels and tags; words may be directly under the root."""
    nodes = st.recursive(
        st.builds(Word, tags, forms),
        lambda inner: st.builds(Constituent, labels, children(inner)),
        max_leaves=12,
    )
    return st.builds(Constituent, st.just(root), children(nodes))


def children(nodes: st.SearchStrategy) -> st.SearchStrategy[tuple]:
    return st.lists(nodes, min_size=1, max_size=3).map(tuple)


normalized = trees(labels.filter(lambda label: label != ROOT_LABEL), tags)


def chain(depth: int, label: str = "NP") -> Constituent:
    tree = Constituent(label, (Word("NN", "board"),))
    for _ in range(depth - 1):
        tree = Constituent(label, (tree,))
    return tree


def parse(text: str) -> list[Constituent]:
    return list(parse_trees(text.splitlines(keepends=True), "t.mrg"))


@given(st.lists(trees(labels, tags), max_size=3), st.randoms(use_true_random=False))
def test_what_is_written_is_read_in_any_layout(found, random):
    """Any white space, or none next to a bracket; several trees on a line, or several lines."""
    text, last = "", "("
    for token in re.findall(r"[()]|[^() ]+", " ".join(map(write_tree, found))):
        space = random.choice(["", " ", "\n", "\t", "\r\n", "\f\v  "])
        between_atoms = last not in "()" and token not in "()"
        text += (space or " " * between_atoms) + token
        last = token
    assert list(parse_trees(re.split("(?<=\n)", text), "t.mrg")) == found


def test_a_tree_is_given_out_as_soon_as_it_is_closed():
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
    for word in penn_words(sentence):
        require_word(word)


def test_a_drawing_has_every_label_and_word_in_order():
    (tree,) = parse("(TOP (NP (DT the) (NN board)) (. .))")
    rows = pretty(tree).split("\n")
    named = [row.split() for row in rows if not set(row) <= set(" _|")]
    assert named == [["TOP"], ["NP", "|"], ["DT", "NN", "."], ["the", "board", "."]]
    assert pretty(Constituent("TOP", (chain(MAX_OPEN),))).count("NP") == MAX_OPEN


def test_the_german_tag_of_brackets_and_brackets_under_it_are_escaped():
    (tree,) = parse("(S ($( () (NN a) ($( )) ($(  -) ($ $) ($. .))")
    assert write_tree(tree) == ("(S ($*LRB* -LRB-) (NN a) ($*LRB* -RRB-) ($*LRB* -) ($ $) ($. .))")


from_treebanks = trees(
    st.sampled_from(["S", "NP-SBJ-1", "NP=2", "-LRB-", "ROOT", "S1", "ADVP|PRT", "NP"]),
    st.sampled_from(["NN", "-NONE-", "."]),
    root="",
)


def words_in(tree: Constituent) -> list[str]:
    return [word.form for word in words_of(tree)]


@given(normalized)
def test_repair_is_the_inverse_of_linearizing(tree):
    """Under XX only the tags are lost, and without `keep_tags` those of punctuation."""
    assert repair(linearize(tree, "pos"), words_in(tree), keep_tags=True) == (tree, {})
    symbols = linearize(tree, "XX")
    without_tags = repair(symbols, words_in(tree)).tree
    assert linearize(without_tags, "XX") == symbols
    assert words_in(without_tags) == words_in(tree)
    assert {word.tag for word in words_of(without_tags)} <= {"XX", ",", ".", ":", "``", "''"}
    found = repair(linearize(tree, "pos"), words_in(tree))
    assert found.well_formed and linearize(found.tree, "XX") == symbols
    changed = sum(a != b for a, b in zip(words_of(tree), words_of(found.tree), strict=True))
    assert found.repairs == ({Rule.PUNCTUATION_TAGS: changed} if changed else {})


@given(forms)
def test_a_word_is_one_word_of_the_source(form):
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
        # Historical treebanks: no text, and traces without -NONE-
        ("( (S (CODE <P_1>) (NP *con*) (C 0) (VB x)) (ID A,1.2))", "(S (VB x))", ""),
        ("( (S (NP-SBJ (N x)) (WNP-2 0) (NP *T*-2)) (CODE {COM:y}) (ID A))", "(S (NP (N x)))", ""),
        ("(S (UH *sigh*) (NP (CD 0) (ID x)))", "(S (UH *sigh*) (NP (CD 0) (ID x)))", ""),
        ("(S##head=1## (NP-SUJ##x=y## (D##lem=le|c=D## Le)))", "(S (NP (D Le)))", ""),  # SPMRL
        ("(S (# ##) (NN a##b))", "(S (# ##) (NN a##b))", ""),
        ("(S (NP (DT 0=the) (NN 1=a=b)) (VB 2=x))", "(S (NP (DT the) (NN a=b)) (VB x))", ""),
        ("(S (NP (CD 1=2)))", "(S (NP (CD 1=2)))", ""),
    ],
)
def test_one_root_without_function_tags_and_traces(treebank, expected, collapsed):
    (tree,) = parse(treebank)
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
    for tree in (chain(MAX_OPEN + 1), chain(10_000), *parse("(ROOT (NP (-NONE- *)))")):
        fault_of(normalize, tree)
    for treebank, fault in {
        "(S (NP *T*-1) (VB x))": "expected a trace to have the tag -NONE-, got",
        "(S (NP *-1) (VB x))": "expected a trace to have the tag -NONE-, got",
        "(S (NN 1=x) (VB 0=y))": "expected words in the order of their numbers, got",
        "(S (DT 1) (NN 2) (VB 3))": "expected words, got their numbers: 1 2 3",
        "(S (VP (V 1) (NP (D 0))) (X 2))": "expected words, got their numbers: 1 0 2",
        "(S (sn.e *0*) (VB x))": "expected a trace to have the tag -NONE-, got",
        "( (CODE {BOM}))": "a tree must have a word besides traces",
    }.items():
        assert fault_of(normalize, *parse(treebank)).startswith(fault)
    for symbol in ("<unk>", "madeupword0000"):  # fairseq's own
        fault_of(normalize, *parse(f"(NP (DT the) ({symbol} board))"))
        assert words_of(normalize(*parse(f"(NP (NN {symbol}))"))) == [("NN", symbol)]
    for words in ([], ["the", ""], ["a b"], ["(", "x"]):
        fault_of(repair, ["XX"] * len(words), words)


sequences = st.lists(
    st.sampled_from(["(S", "(NP", "(VP", ")S", ")NP", ")VP", "NN", "DT", "XX"])
    | st.sampled_from(["(", ")", "((S", "S)", "(S)", "<unk>", "</s>", "<<unk>>", "", " ", "a b"])
    | st.text(max_size=3),
    max_size=30,
)
sentences = st.lists(forms, min_size=1, max_size=6)


@given(sequences, sentences)
@example(["NN", "0"], [","])
def test_any_sequence_becomes_a_tree_over_exactly_the_words(symbols, words):
    """That tree needs no repair, and what was no tree over the words is counted."""
    tree, repairs = repair(symbols, words)
    assert [word.form for word in words_of(tree)] == words
    assert list(parse_trees([write_tree(tree)], "t.mrg")) == [tree]
    assert list(repairs) == [name for name in REPAIRS if repairs.get(name, 0) > 0]
    assert repair(linearize(tree, "pos"), words) == (tree, {})
    kept = repair(symbols, words, keep_tags=True)
    assert kept.well_formed == (linearize(kept.tree, "pos") == symbols)


@given(st.sampled_from(["PU", "$.", "$,", "$*LRB*", "NOUN", "PONCT", "NN-SB"]), sentences)
def test_tags_of_other_treebanks_stay(tag, words):
    """English rules would make XX of a German comma. Alternatives of Penn tags are Penn tags."""
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
    """Breaks if the depth of trees is that of calls. What is too deep counts once."""
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

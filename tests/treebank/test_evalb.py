"""EVALB's rules, against a slow reference and on trees small enough to count by hand; its table."""

import random
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from faults import fault_of

from fairseq_aiayn.treebank.evalb import (
    COLLINS,
    NEW,
    LabelCount,
    Parameters,
    Status,
    TreeScores,
    find_parameters,
    read_parameters,
    score_sentence,
    sentence_line,
    summarize,
    summary_lines,
    totals_lines,
)
from fairseq_aiayn.treebank.trees import Constituent, Word, write_tree

# S 0-5, NP 0-2, VP 2-5, NP 3-5 over the cat saw a bird, and a full stop that does not count
CAT = "(TOP (S (NP (DT the) (NN cat)) (VP (VBD saw) (NP (DT a) (NN bird))) (. .)))"

DELETED = ("-NONE-", ",", ":", "``", "''", ".")


def counts(gold: str, predicted: str) -> tuple[int, int, int]:
    scored = score_sentence(gold, predicted)
    assert scored.status is Status.VALID, scored.reason
    return scored.counts


def score(*pairs: tuple[str, str]) -> TreeScores:
    return summarize(score_sentence(*pair) for pair in pairs)


def spans_of(tree: Constituent) -> tuple[list[tuple[int, int, str]], list[Word]]:
    """The constituents and words that count by EVALB's rules, without a look at the package."""
    spans, words = [], []

    def visit(node: Constituent | Word) -> None:
        if isinstance(node, Word):
            words.extend([node] * (node.tag not in DELETED))
            return
        start = len(words)
        for child in node.children:
            visit(child)
        label = node.label.split("-")[0].split("=")[0].replace("PRT", "ADVP")
        if len(words) > start and label != "TOP":
            spans.append((start, len(words), label))

    visit(tree)
    return spans, words


def random_tree(rng: random.Random, words: list[tuple[str, bool]]) -> Constituent:
    """A tree over these forms, those with True deleted; with unary brackets and function tags."""
    cuts = sorted({0, len(words), *rng.choices(range(len(words) + 1), k=2)})
    if len(cuts) == 2:
        tags = {True: DELETED, False: ("NN", "NN", "PRT", "ADVP", "-RRB-")}
        children = tuple(Word(rng.choice(tags[deleted]), form) for form, deleted in words)
    else:
        children = tuple(random_tree(rng, words[a:b]) for a, b in pairwise(cuts))
    tree = Constituent(rng.choice(["S", "NP", "NP-SBJ", "ADVP=1", "PRT", "TOP"]), children)
    return Constituent(rng.choice(["S", "NP"]), (tree,)) if rng.random() < 0.3 else tree


def test_sentences_are_scored_as_by_the_rules():
    rng = random.Random(7)
    seen: Counter[str] = Counter()
    for _ in range(500):
        forms = [(rng.choice("ab"), rng.random() < 0.2) for _ in range(rng.randint(1, 9))]
        pair = random_tree(rng, forms), random_tree(rng, forms)
        (gold, gold_words), (predicted, words) = map(spans_of, pair)
        found = score_sentence(*map(write_tree, pair))
        if not words:
            assert found.status is Status.SKIPPED
            continue
        assert (found.status, found.words) == (Status.VALID, len(words))
        assert (len(found.gold), len(found.predicted)) == (len(gold), len(predicted))
        assert len(found.matched) == (Counter(gold) & Counter(predicted)).total()
        assert found.crossing == sum(
            any(a < start < b < end or start < a < end < b for a, b, _ in gold)
            for start, end, _ in predicted
        )
        pairs = zip(gold_words, words, strict=True)
        same_tags = [{a.tag, b.tag} in ({a.tag}, {"ADVP", "PRT"}) for a, b in pairs]
        assert found.correct_tags == sum(same_tags)
        seen["partial"] += 0 < len(found.matched) < min(len(gold), len(predicted))
        seen["crossing"] += found.crossing > 0
    assert min(seen.values()) > 50


@pytest.mark.parametrize(
    ("predicted", "expected"),  # matched, gold and predicted constituents
    [
        (CAT.replace(" (. .)", ""), (4, 4, 4)),  # punctuation need not be the same
        (CAT.replace("(TOP", "("), (4, 4, 5)),  # TOP does not count, other roots do
        (CAT.replace("(NP", "(NP|SBJ"), (2, 4, 4)),  # function tags are cut at - and = alone
        (CAT.replace(" ", " \t").replace(")", " )") + "\r\n", (4, 4, 4)),  # white space
        (CAT.replace(") (", ")("), (4, 4, 4)),
        (CAT.replace("(. .)", "(XP)"), (4, 4, 4)),  # no word: an empty constituent
        (CAT.replace("(S", "").replace("(. .))", ""), (3, 4, 3)),  # several trees
    ],
)
def test_what_matches(predicted, expected):
    assert counts(CAT, predicted) == expected


@pytest.mark.parametrize(
    ("gold", "predicted", "status"),
    [
        (CAT, CAT.replace("(. .)", "(SYM .)"), Status.ERROR),  # other words than gold's
        (CAT, CAT.replace("(. .)", "(XP )"), Status.ERROR),  # a word, no form
        (CAT, CAT.replace("cat", "Cat"), Status.ERROR),
        ("", CAT, Status.ERROR),
        (CAT, CAT[:-1], Status.ERROR),  # brackets that do not balance
        (CAT, ")" + CAT, Status.ERROR),
        (CAT[:-1], CAT, Status.ERROR),
        (CAT, " \t\r\n", Status.SKIPPED),  # nothing predicted
        (CAT, "(TOP (. .))", Status.SKIPPED),
        ("", "", Status.SKIPPED),
    ],
)
def test_a_sentence_that_does_not_count(gold, predicted, status):
    scored = score_sentence(gold, predicted)
    assert scored.status is status and scored.reason and scored.counts == (0, 0, 0)
    assert scored.length == (6 if gold else 0)
    summary = score((gold, predicted), (CAT, CAT)).all
    assert (summary.errors, summary.skipped) == (status == Status.ERROR, status == Status.SKIPPED)
    assert (summary.sentences, summary.valid, summary.words, summary.f1) == (2, 1, 5, 100.0)


@pytest.mark.parametrize("tree", ["dog", "(NP dog (X y))", "(TOP (NN a dog))"])
def test_text_outside_of_a_word_is_refused(tree):
    for pair, side in (((tree, CAT), "gold"), ((CAT, tree), "predicted")):
        with pytest.raises(ValueError, match=rf"^{side} tree: .*'(dog|a)'"):
            score_sentence(*pair)


def test_length_has_punctuation_and_no_traces():
    def sentence(words: int, more: str) -> str:
        return "(TOP (S" + " (NN x)" * words + f" {more}))"

    trees = [sentence(39, "(. .)"), sentence(40, "(-NONE- *)")]
    long = [sentence(40, "(. .)"), sentence(41, "")]
    scores = score(*[(tree, tree) for tree in trees + long])
    assert (scores.all.sentences, scores.short.sentences, scores.cutoff) == (4, 2, 40)
    assert (scores.all.words, scores.short.words) == (160, 79)


def test_there_are_no_limits():
    words = " ".join(f"(NP (NN {'word' * 50}{number}))" for number in range(1000))
    assert counts(f"(TOP (S {words}))", f"(TOP (S {words}))") == (1001, 1001, 1001)
    deep = "(X " * 100_000 + "(NN a)" + ")" * 100_000
    assert counts(deep, deep) == (100_000, 100_000, 100_000)
    assert score(*[(CAT, "(NN a)")] * 50, (CAT, CAT)).all.errors == 50


# Of the constituents S, A and B, S alone is in TWO and in MORE, where two and three others cross A
# and B; in MORE, a tag is wrong.
THREE = "(TOP (S (A (X a) (X b)) (B (X c) (X d)) (. .)))"
TWO = "(TOP (S (X a) (Q (Q (X b) (X c))) (X d) (. .)))"
MORE = "(TOP (S (X a) (Q (Q (Q (X b) (X c)))) (Y d) (. .)))"


def test_both_summaries_have_the_figures_of_the_valid_sentences():
    scores = score(*[(THREE, predicted) for predicted in (THREE, TWO, MORE, "(X a)", "")])
    lines = list(summary_lines(scores))
    assert lines[:16] == [
        "=== Summary ===",
        "",
        "-- All --",
        "Number of sentence        =      5",
        "Number of Error sentence  =      1",
        "Number of Skip  sentence  =      1",
        "Number of Valid sentence  =      3",
        "Bracketing Recall         =  55.56",
        "Bracketing Precision      =  50.00",
        "Bracketing FMeasure       =  52.63",
        "Complete match            =  33.33",
        "Average crossing          =   1.67",
        "No crossing               =  33.33",
        "2 or less crossing        =  66.67",
        "Tagging accuracy          =  91.67",
        "",
    ]
    assert lines[16:] == ["-- len<=40 --", *lines[3:15]]
    nothing = score(("(A (X a))", "(B (X a))")).all
    assert (nothing.recall, nothing.precision, nothing.f1) == (0.0, 0.0, 0.0)


def test_the_table_is_laid_out_as_by_the_c_program():
    line = "  12    5    0   33.33  25.00     1      3    4      3      4     3    75.00"
    assert sentence_line(12, score_sentence(THREE, MORE)) == line
    zeros = "0.00   0.00     0      0    0      0      0     0     0.00"
    assert sentence_line(3, score_sentence(THREE, "(X a)")) == f"   3    5    1    {zeros}"
    assert sentence_line(12345, score_sentence(THREE, "")) == f"12345    5    2    {zeros}"
    totals = "                 33.33  28.57      2     6     7      5      8     7    87.50"
    assert list(totals_lines(score((THREE, TWO), (THREE, MORE)).all)) == ["=" * 76, totals]
    assert list(totals_lines(score((THREE, "")).all))[1] == "      0     0     0.00"


def test_labels_are_counted_and_prt_as_advp():
    gold = "(TOP (S (NP (PRP we)) (VP (VB give) (PRT (RP up)) (ADVP (RB now)))))"
    predicted = "(TOP (S (NP (PRP we)) (X (VB give) (ADVP (RP up)) (RB now))))"
    labels = score((gold, predicted), (CAT, "")).labels  # gold, predicted, matched
    figures = {"ADVP": (2, 1, 1), "NP": (1, 1, 1), "S": (1, 1, 1), "VP": (1, 0, 0), "X": (0, 1, 0)}
    assert labels == {label: LabelCount(*each) for label, each in figures.items()}


NEW_FILE = "## EVALB's newer file ##\nDEBUG 0\n\n# EQ_WORD colour color\nCUTOFF_LEN 40\n" + "".join(
    [f"DELETE_LABEL {label}\n" for label in (*DELETED, "TOP", "S1", "?", "!")]
    + ["DELETE_LABEL_FOR_LENGTH -NONE-\n", "EQ_LABEL ADVP PRT\n"]
    + [f"QUOTE_LABEL {label}\n" for label in ("``", "''", "POS", "NN", "CD", "VBZ", ":")]
)


def test_a_file_says_what_evalbs_own_does_and_hides_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("COLLINS.prm").mkdir()
    assert find_parameters("COLLINS.prm") == COLLINS
    file = Path("COLLINS")
    file.write_text(NEW_FILE.replace("\n", " \t\r\n"), newline="")
    assert find_parameters("COLLINS") == replace(NEW, name="COLLINS")
    numbers = "LABELED 1\nLABELED 0\nCUTOFF_LEN 10\n"
    file.write_text(f"{numbers}EQ_WORD a the\nEQ_LABEL A B\nEQ_LABEL B C\n")
    pairs = {"equal_labels": (("A", "B"), ("B", "C")), "equal_words": (("a", "the"),)}
    assert read_parameters(file) == Parameters("COLLINS", labeled=False, cutoff=10, **pairs)
    file.write_text("")
    assert read_parameters(file) == Parameters("COLLINS", labeled=True, cutoff=40)
    for line in ("DELETE_WORD the", "EQ_LABEL ADVP", "LABELED -1"):
        file.write_text(f"CUTOFF_LEN 40\n{line}\n")
        assert fault_of(read_parameters, file).startswith("COLLINS:2: ")


def test_parameters_change_the_rules():
    unlabeled = replace(COLLINS, labeled=False)
    other = CAT.replace("(VP", "(X").replace("(NP", "(Y")
    assert len(score_sentence(CAT, other, unlabeled).matched) == 4
    words = replace(COLLINS, equal_words=(("the", "a"),), cutoff=5)
    swapped = CAT.replace("(DT the)", "(DT A)").replace("(DT a)", "(DT the)").replace("A)", "a)")
    assert len(score_sentence(CAT, swapped, words).matched) == 4
    assert summarize([score_sentence(CAT, CAT, words)], words).short.sentences == 0
    no_particles = replace(COLLINS, deleted=COLLINS.deleted | {"PRT"})  # and what equals them
    tree = "(TOP (VP (VB give) (ADVP (RP up))))"
    assert score_sentence(tree, tree, no_particles).gold == ("VP",)
    chain = replace(COLLINS, equal_labels=(("A", "B"), ("B", "C")))  # A and C are not equal
    assert score_sentence("(B (X a))", "(C (X a))", chain).matched == ("B",)
    assert score_sentence("(A (X a))", "(C (X a))", chain).matched == ()


QUOTES = replace(COLLINS, quote_labels=NEW.quote_labels)
POSSESSIVE = "(S (NP (NN dogs) (POS ')) (VP (VB bark)))"  # S 0-3, NP 0-2, VP 2-3
BEHIND = "(S (POS ') (NP (NN dogs) (POS ')) (VP (VB bark)) (POS '))"
IN_A_ROW = "(S (`` ') ('' {}) (NP (NN a)))"


@pytest.mark.parametrize(
    ("gold", "predicted", "matched", "words"),  # nothing and 0 if the words are not the same
    [
        (POSSESSIVE, POSSESSIVE.replace("POS", "''"), ("S", "NP", "VP"), 3),
        (POSSESSIVE.replace("POS", "''"), POSSESSIVE, ("S", "NP", "VP"), 3),
        (BEHIND, BEHIND.replace("POS", "''"), ("S", "NP", "VP"), 5),  # later quotes move
        # NP 1-3 and VP 3-4 in gold; the predicted NP leaves the second quote to the VP
        (BEHIND, "(S ('' ') (NP (NN dogs)) (VP ('' ') (VB bark)) ('' '))", ("S",), 5),
        # nothing is put back where the numbers of words agree
        ("(S ('' ') (NP (NN a) (POS ')))", "(S (POS ') (NP (NN a) ('' ')))", (), 0),
        # of different quotes in a row, the C program puts back the first twice
        (IN_A_ROW.format("'"), "(S (POS ') (POS ') (NP (NN a)))", ("S", "NP"), 3),
        (IN_A_ROW.format('"'), "(S (POS ') (POS \") (NP (NN a)))", (), 0),
        # only plain quotes
        (POSSESSIVE.replace("'", "``"), POSSESSIVE.replace("POS ')", "'' ``)"), (), 0),
    ],
)
def test_a_quote_deleted_on_one_side_is_put_back(gold, predicted, matched, words):
    assert score_sentence(gold, predicted).status is Status.ERROR
    scored = score_sentence(gold, predicted, QUOTES)
    assert (scored.matched, scored.words) == (matched, words)
    assert scored.status is (Status.VALID if words else Status.ERROR)

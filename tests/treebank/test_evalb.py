"""EVALB's rules, on trees small enough to count by hand, and against a slow reference."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest

from fairseq_aiayn.treebank.evalb import (
    COLLINS,
    LabelCount,
    Scores,
    SentenceScore,
    Status,
    score_sentence,
    summarize,
)
from fairseq_aiayn.treebank.trees import Constituent, Word, write_tree

# S 0-5, NP 0-2, VP 2-5, NP 3-5 over the cat saw a bird, and a full stop that does not count
CAT = "(TOP (S (NP (DT the) (NN cat)) (VP (VBD saw) (NP (DT a) (NN bird))) (. .)))"


def counts(gold: str, predicted: str) -> tuple[int, int, int]:
    """Matched, gold and predicted constituents of a valid sentence."""
    scored = score_sentence(gold, predicted)
    assert scored.status is Status.VALID, scored.reason
    return len(scored.matched), len(scored.gold), len(scored.predicted)


def score(*pairs: tuple[str, str]) -> Scores:
    return summarize(score_sentence(*pair) for pair in pairs)


def spans_of(tree: Constituent) -> tuple[list[tuple[int, int, str]], list[Word]]:
    """The constituents that count, and the words that do, by EVALB's rules 2 and 4 and with ADVP
    for PRT; written without a look at the package."""
    deleted = {"TOP", "-NONE-", ",", ":", "``", "''", "."}
    spans, words = [], []

    def visit(node: Constituent | Word) -> None:
        if isinstance(node, Word):
            words.extend([node] * (node.tag not in deleted))
            return
        start = len(words)
        for child in node.children:
            visit(child)
        label = node.label.split("-")[0].split("=")[0].replace("PRT", "ADVP")
        if len(words) > start and label not in deleted:
            spans.append((start, len(words), label))

    visit(tree)
    return spans, words


def random_tree(rng: random.Random, words: list[tuple[str, bool]]) -> Constituent:
    """A tree over these forms, those with True deleted; with unary brackets and function tags."""
    cuts = sorted({0, len(words), *rng.choices(range(len(words) + 1), k=2)})
    if len(cuts) == 2:
        tags = {True: (",", "-NONE-"), False: ("NN", "NN", "PRT", "ADVP")}
        children = tuple(Word(rng.choice(tags[deleted]), form) for form, deleted in words)
    else:
        children = tuple(random_tree(rng, words[a:b]) for a, b in pairwise(cuts))
    tree = Constituent(rng.choice(["S", "NP", "NP-SBJ", "ADVP=1", "PRT", "TOP"]), children)
    return Constituent(rng.choice(["S", "NP"]), (tree,)) if rng.random() < 0.3 else tree


def test_sentences_are_scored_as_by_the_rules() -> None:
    """Breaks if a constituent is counted twice or not at all, a span includes deleted words, or
    crossing is not what each pair of constituents says."""
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
        same_tags = [
            {a.tag, b.tag} in ({a.tag}, {"ADVP", "PRT"})
            for a, b in zip(gold_words, words, strict=True)
        ]
        assert found.correct_tags == sum(same_tags)
        seen["partial"] += 0 < len(found.matched) < min(len(gold), len(predicted))
        seen["crossing"] += found.crossing > 0
    assert min(seen.values()) > 50


@pytest.mark.parametrize(
    ("gold", "predicted", "expected"),  # matched, gold and predicted constituents
    [
        (CAT, CAT.replace(" (. .)", ""), (4, 4, 4)),  # punctuation need not be the same
        (CAT, CAT.replace("(. .)", "(PRN (. .) (X (: ;)))"), (4, 4, 4)),  # nothing but punctuation
        (CAT, CAT.removeprefix("(TOP ")[:-1], (4, 4, 4)),  # TOP does not count, other roots do
        (CAT, CAT.replace("(TOP", "("), (4, 4, 5)),
        (CAT, CAT.replace("(NP", "(NP=3-1"), (4, 4, 4)),  # function tags are cut at - and = alone
        (CAT, CAT.replace("(NP", "(NP|SBJ"), (2, 4, 4)),
        ("(S (VP (VB go)))", "(VP (S (VB go)))", (2, 2, 2)),  # unary chains in any order
        (CAT, CAT.replace(" ", " \t").replace(")", " )") + "\r\n", (4, 4, 4)),  # white space
        (CAT, CAT.replace(") (", ")("), (4, 4, 4)),
        (CAT, CAT.replace("(. .)", "(XP)"), (4, 4, 4)),  # no word: an empty constituent
        (CAT, CAT.replace("(S", "").replace("(. .))", ""), (3, 4, 3)),  # several trees
    ],
)
def test_what_matches(gold: str, predicted: str, expected: tuple[int, int, int]) -> None:
    assert counts(gold, predicted) == expected


@pytest.mark.parametrize("tag", [",", ":", "``", "''", ".", "-NONE-"])
def test_words_with_these_tags_are_in_no_span_and_others_are(tag: str) -> None:
    outside = "(TOP (S (NP (NN rain)) ({} x) (VP (VBD fell))))"
    inside = "(TOP (S (NP (NN rain) ({} x)) (VP (VBD fell))))"
    assert counts(outside.format(tag), inside.format(tag)) == (3, 3, 3)
    assert score_sentence(outside.format(tag), inside.format(tag)).words == 2
    assert counts(outside.format("-RRB-"), inside.format("-RRB-")) == (2, 3, 3)


@pytest.mark.parametrize(
    ("predicted", "reason"),
    [
        (CAT.replace("(DT a)", "(, a)"), "4 words to score where gold has 5"),
        (CAT.replace("(. .)", "(SYM .)"), "6 words to score where gold has 5"),
        (CAT.replace("(. .)", "(XP )"), "6 words to score where gold has 5"),  # a word, no form
        (CAT.replace("cat", "Cat"), "the word 'Cat' where gold has 'cat'"),
    ],
)
def test_other_words_than_golds_are_an_error(predicted: str, reason: str) -> None:
    assert score_sentence(CAT, predicted) == SentenceScore(6, Status.ERROR, reason)


@pytest.mark.parametrize("predicted", ["", " \t\r\n", "(TOP (. .))"])
def test_a_prediction_without_words_is_skipped(predicted: str) -> None:
    assert score_sentence(CAT, predicted) == SentenceScore(6, Status.SKIPPED, "no words to score")
    assert score_sentence("", predicted).status is Status.SKIPPED
    assert score_sentence(predicted, CAT).status is Status.ERROR


@pytest.mark.parametrize(
    ("gold", "predicted", "reason"),
    [
        (CAT, CAT[:-1], "brackets that this line does not close: 1"),
        (CAT, ")" + CAT, "a closing bracket too many"),
        (CAT[:-1], CAT, "gold: brackets that this line does not close: 1"),
    ],
)
def test_brackets_that_do_not_balance_are_an_error_with_figures(
    gold: str, predicted: str, reason: str
) -> None:
    scored = score_sentence(gold, predicted)
    assert (scored.status, scored.reason) == (Status.ERROR, reason)
    assert len(scored.matched) >= 2 and scored.words == 5
    assert score((gold, predicted)).all.words == 0
    again = score_sentence("(S (NP (NN a)) (VB b))", "(S (NP (NN a))) (VB b))")
    assert again.matched == ("S", "NP"), "the first constituent is closed again, as in C"


@pytest.mark.parametrize("tree", ["dog", "(NP dog (X y))", "(TOP (NN a dog))"])
def test_text_outside_of_a_word_is_refused(tree: str) -> None:
    for pair, side in (((tree, CAT), "gold"), ((CAT, tree), "predicted")):
        with pytest.raises(ValueError, match=rf"^{side} tree: .*'(dog|a)'"):
            score_sentence(*pair)


def test_length_has_punctuation_and_no_traces() -> None:
    def sentence(words: int, more: str) -> str:
        return "(TOP (S" + " (NN x)" * words + f" {more}))"

    trees = [sentence(39, "(. .)"), sentence(40, "(-NONE- *)")]
    long = [sentence(40, "(. .)"), sentence(41, "")]
    scores = score(*[(tree, tree) for tree in trees + long])
    assert (scores.all.sentences, scores.short.sentences, scores.cutoff) == (4, 2, 40)
    assert (scores.all.words, scores.short.words) == (160, 79)
    assert score((long[0], long[0])).short.valid == 0


def test_summary_has_the_figures_of_the_valid_sentences() -> None:
    gold = "(TOP (S (A (X a) (X b)) (B (X c) (X d))))"  # S, A, B
    middle = "(TOP (S (X a) (A (X b) (X c)) (Y d)))"  # S matches, A crosses A and B; a tag is wrong
    scores = score((gold, gold), (gold, middle), (gold, "(TOP (X a))"), (gold, ""))
    summary = scores.all
    assert (summary.sentences, summary.errors, summary.skipped, summary.valid) == (4, 1, 1, 2)
    assert (summary.matched_constituents, summary.gold_constituents) == (4, 6)
    assert (summary.predicted_constituents, summary.crossing_constituents) == (5, 1)
    assert summary.recall == pytest.approx(100 * 4 / 6)
    assert summary.precision == pytest.approx(100 * 4 / 5)
    assert summary.f1 == pytest.approx(100 * 2 * 4 / (6 + 5))
    assert (summary.complete_match, summary.average_crossing) == (50.0, 0.5)
    assert (summary.no_crossing, summary.two_or_less_crossing) == (50.0, 100.0)
    two = "(TOP (S (X a) (Q (Q (X b) (X c))) (X d)))"
    three = "(TOP (S (X a) (Q (Q (Q (X b) (X c)))) (X d)))"
    crossing = score((gold, two), (gold, three)).all
    assert crossing.crossing_constituents == 2 + 3 and crossing.two_or_less_crossing == 50.0
    assert summary.tagging_accuracy == 87.5
    assert scores.short == summary
    nothing = score(("(A (X a))", "(B (X a))")).all
    assert (nothing.recall, nothing.precision, nothing.f1) == (0.0, 0.0, 0.0)
    assert score((CAT, "")).all.f1 == 0.0


def test_labels_are_counted_and_prt_as_advp() -> None:
    gold = "(TOP (S (NP (PRP we)) (VP (VB give) (PRT (RP up)) (ADVP (RB now)))))"
    predicted = "(TOP (S (NP (PRP we)) (X (VB give) (ADVP (RP up)) (RB now))))"
    labels = score((gold, predicted), (CAT, "")).labels  # gold, predicted, matched
    figures = {"ADVP": (2, 1, 1), "NP": (1, 1, 1), "S": (1, 1, 1), "VP": (1, 0, 0), "X": (0, 1, 0)}
    assert labels == {label: LabelCount(*each) for label, each in figures.items()}


def test_parameters_change_the_rules() -> None:
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


def test_there_are_no_limits() -> None:
    words = " ".join(f"(NP (NN {'word' * 50}{number}))" for number in range(1000))
    assert counts(f"(TOP (S {words}))", f"(TOP (S {words}))") == (1001, 1001, 1001)
    deep = "(X " * 100_000 + "(NN a)" + ")" * 100_000
    assert counts(deep, deep) == (100_000, 100_000, 100_000)
    assert score(*[(CAT, "(NN a)")] * 50, (CAT, CAT)).all.errors == 50

"""EVALB's rules, on trees small enough to count by hand."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest

from fairseq_aiayn.treebank.evalb import (
    COLLINS,
    LabelCount,
    SentenceScore,
    Status,
    count_crossing,
    score,
    score_sentence,
)
from fairseq_aiayn.treebank.trees import Constituent, Word, write_tree

# S 0-5, NP 0-2, VP 2-5, NP 3-5 over the cat saw a bird, and a full stop that does not count
CAT = "(TOP (S (NP (DT the) (NN cat)) (VP (VBD saw) (NP (DT a) (NN bird))) (. .)))"


def counts(gold: str, predicted: str) -> tuple[int, int, int]:
    """Matched, gold and predicted constituents of a valid sentence."""
    scored = score_sentence(gold, predicted)
    assert scored.status is Status.VALID, scored.reason
    return len(scored.matched), len(scored.gold), len(scored.predicted)


def test_a_tree_matches_itself() -> None:
    assert score_sentence(CAT, CAT) == SentenceScore(
        length=6,
        status=Status.VALID,
        reason="",
        gold=("S", "NP", "VP", "NP"),
        predicted=("S", "NP", "VP", "NP"),
        matched=("S", "NP", "VP", "NP"),
        crossing=0,
        words=5,
        correct_tags=5,
    )


def test_a_constituent_needs_both_span_and_label() -> None:
    assert counts(CAT, CAT.replace("(VP", "(PP")) == (3, 4, 4)
    # VP is the verb alone: its span differs, its NP stays
    assert counts(CAT, CAT.replace("(VBD saw)", "(VBD saw))").replace("bird)))", "bird))")) == (
        3,
        4,
        4,
    )


def test_recall_is_of_gold_and_precision_of_the_prediction() -> None:
    flat = "(TOP (S (NP (DT the) (NN cat)) (VBD saw) (DT a) (NN bird) (. .)))"
    scored = score_sentence(CAT, flat)
    assert (scored.recall, scored.precision) == (50.0, 100.0)
    scored = score_sentence(flat, CAT)
    assert (scored.recall, scored.precision) == (100.0, 50.0)


@pytest.mark.parametrize("tag", [",", ":", "``", "''", "."])
def test_punctuation_is_in_no_span(tag: str) -> None:
    outside = f"(TOP (S (NP (NN rain)) ({tag} x) (VP (VBD fell))))"
    inside = f"(TOP (S (NP (NN rain) ({tag} x)) (VP (VBD fell))))"
    assert counts(outside, inside) == (3, 3, 3)
    assert score_sentence(outside, inside).words == 2


def test_other_punctuation_tags_count() -> None:
    outside = "(TOP (S (NP (NN rain)) (-RRB- x) (VP (VBD fell))))"
    inside = "(TOP (S (NP (NN rain) (-RRB- x)) (VP (VBD fell))))"
    assert counts(outside, inside) == (2, 3, 3)


def test_punctuation_need_not_be_the_same() -> None:
    assert counts(CAT, CAT.replace(" (. .)", "")) == (4, 4, 4)


def test_traces_go_and_constituents_that_they_empty() -> None:
    gold = "(TOP (S (NP-SBJ-1 (PRP it)) (VP (VBD was) (SBAR (-NONE- 0) (S (-NONE- *T*-1))))))"
    scored = score_sentence(gold, "(TOP (S (NP (PRP it)) (VP (VBD was))))")
    assert scored.gold == scored.predicted == scored.matched == ("S", "NP", "VP")
    assert scored.length == scored.words == 2


def test_a_constituent_of_punctuation_does_not_count() -> None:
    assert counts(CAT.replace("(. .)", "(PRN (. .) (X (: ;)))"), CAT) == (4, 4, 4)


def test_top_does_not_count_but_other_roots_do() -> None:
    bare = CAT.removeprefix("(TOP ").removesuffix(")")
    assert counts(CAT, bare) == (4, 4, 4)
    assert counts(CAT, f"( {bare})") == (4, 4, 5)
    assert counts(CAT, f"(ROOT {bare})") == (4, 4, 5)
    assert counts(CAT, CAT.replace("(S ", "(S (TOP ") + ")") == (4, 4, 4)


@pytest.mark.parametrize("label", ["NP-SBJ", "NP-SBJ-1", "NP=2", "NP-TMP=3", "NP=3-1"])
def test_function_tags_are_cut(label: str) -> None:
    assert counts(CAT.replace("(NP (DT the)", f"({label} (DT the)"), CAT) == (4, 4, 4)


def test_only_hyphen_and_equals_sign_begin_a_function_tag() -> None:
    assert counts(CAT.replace("(NP (DT the)", "(NP|SBJ (DT the)"), CAT) == (3, 4, 4)


def test_tags_of_words_keep_what_follows_a_hyphen() -> None:
    assert score_sentence(CAT.replace("(NN cat)", "(NN-1 cat)"), CAT).correct_tags == 4


def test_advp_equals_prt() -> None:
    gold = "(TOP (VP (VB give) (PRT (RP up))))"
    assert counts(gold, gold.replace("PRT", "ADVP")) == (2, 2, 2)
    assert counts(gold.replace("PRT", "ADVP"), gold) == (2, 2, 2)
    assert counts(gold, gold.replace("PRT", "PP")) == (1, 2, 2)


@pytest.mark.parametrize(
    ("gold", "predicted", "matched"), [(1, 1, 1), (1, 3, 1), (3, 1, 1), (2, 3, 2), (3, 3, 3)]
)
def test_of_equal_constituents_each_matches_once(gold: int, predicted: int, matched: int) -> None:
    def chain(times: int) -> str:
        return "(TOP (S " + "(NP " * times + "(NN rain)" + ")" * times + " (VBD fell)))"

    assert counts(chain(gold), chain(predicted)) == (matched + 1, gold + 1, predicted + 1)


def test_unary_chains_match_in_any_order() -> None:
    assert counts("(TOP (S (VP (VB go))))", "(TOP (VP (S (VB go))))") == (2, 2, 2)


def test_crossing_counts_predicted_constituents_once() -> None:
    gold = "(TOP (S (A (B (X a) (X b)) (X c)) (C (X d) (X e))))"  # A 0-3, B 0-2, C 3-5
    # D 1-4 crosses A, B and C, E 2-4 crosses A and C; F 3-5 crosses nothing
    assert score_sentence(gold, "(TOP (S (X a) (D (X b) (E (X c) (X d))) (X e)))").crossing == 2
    assert score_sentence(gold, "(TOP (S (X a) (X b) (X c) (F (X d) (X e))))").crossing == 0
    # the other way round, A, B and C cross
    assert score_sentence("(TOP (S (X a) (D (X b) (X c) (X d)) (X e)))", gold).crossing == 3


def spans_of_a_tree(draw: random.Random, start: int, end: int) -> list[tuple[int, int, str]]:
    """Labelled spans of a random tree over these words; some spans are left out."""
    found = [(start, end, "X")] * draw.choice((0, 1, 1, 2))
    if end - start > 1:
        inner = range(start + 1, end)
        cuts = [start, *sorted(draw.sample(inner, draw.randint(1, min(3, len(inner))))), end]
        for pair in pairwise(cuts):
            found += spans_of_a_tree(draw, *pair)
    return found


def test_crossing_is_what_every_pair_of_constituents_says() -> None:
    draw = random.Random(1)
    for words in [*range(1, 15)] * 100:
        gold, predicted = (spans_of_a_tree(draw, 0, words) for _ in range(2))
        expected = sum(
            any(a < start < b < end or start < a < end < b for a, b, _ in gold)
            for start, end, _ in predicted
        )
        assert count_crossing(gold, predicted) == expected, (gold, predicted)


def test_labels_do_not_matter_to_crossing() -> None:
    gold, predicted = "(S (A (X a) (X b)) (X c))", "(S (X a) (A (X b) (X c)))"
    assert score_sentence(gold, predicted).crossing == 1
    assert (
        score_sentence(gold, predicted.replace("A", "TOP")).crossing == 0
    )  # TOP is no constituent


def test_tagging_accuracy_is_of_the_words_that_are_left() -> None:
    scored = score_sentence(CAT, CAT.replace("NN", "NNS"))
    assert (scored.correct_tags, scored.words) == (3, 5)
    assert len(scored.matched) == 4


@pytest.mark.parametrize(
    ("predicted", "reason"),
    [
        (CAT.replace("(DT a) ", ""), "4 words to score where gold has 5"),
        (CAT.replace("(DT a)", "(DT a) (JJ red)"), "6 words to score where gold has 5"),
        (CAT.replace("(DT a)", "(, a)"), "4 words to score where gold has 5"),
        (CAT.replace("(. .)", "(SYM .)"), "6 words to score where gold has 5"),
        (CAT.replace("cat", "Cat"), "the word 'Cat' where gold has 'cat'"),
        (CAT.replace("cat", "c\u00a0t"), "the word 'c\\xa0t' where gold has 'cat'"),
    ],
)
def test_other_words_than_golds_are_an_error(predicted: str, reason: str) -> None:
    assert score_sentence(CAT, predicted) == SentenceScore(6, Status.ERROR, reason)


@pytest.mark.parametrize("predicted", ["", "\n", " \t\r\n", "(TOP (. .))", "(S)", "()"])
def test_a_prediction_without_words_is_skipped(predicted: str) -> None:
    assert score_sentence(CAT, predicted) == SentenceScore(6, Status.SKIPPED, "no words to score")


def test_a_gold_tree_without_words_is_an_error_unless_both_are() -> None:
    assert score_sentence("", CAT).reason == "5 words to score where gold has 0"
    assert score_sentence("", "").status is Status.SKIPPED


@pytest.mark.parametrize(
    ("gold", "predicted", "reason"),
    [
        (CAT, CAT[:-1], "brackets that this line does not close: 1"),
        (CAT, CAT.replace("(S ", "(S (X (Y "), "brackets that this line does not close: 2"),
        (CAT, CAT + ")", "a closing bracket too many"),
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
    assert score([(gold, predicted)]).all.words == 0


def test_a_closing_bracket_too_many_closes_the_first_constituent_again() -> None:
    scored = score_sentence("(S (NP (NN a)) (VB b))", "(S (NP (NN a))) (VB b))")
    assert (scored.status, scored.matched) == (Status.ERROR, ("S", "NP"))


@pytest.mark.parametrize("tree", ["dog", "(NP dog (X y))", "(NP (X y) dog)", "(TOP (NN a dog))"])
def test_text_outside_of_a_word_is_refused(tree: str) -> None:
    with pytest.raises(ValueError, match=r"^gold tree: '(dog|a)' must be in brackets of its own"):
        score_sentence(tree, CAT)
    with pytest.raises(ValueError, match=r"^predicted tree: '(dog|a)' must be in brackets"):
        score_sentence(CAT, tree)


def test_white_space_does_not_matter() -> None:
    assert counts(CAT, CAT.replace(" ", " \t").replace(")", " )") + "\r\n") == (4, 4, 4)
    assert counts(CAT, CAT.replace(") (", ")(")) == (4, 4, 4)


def test_a_bracket_with_only_a_label_is_empty_or_after_white_space_a_word() -> None:
    assert counts(CAT, CAT.replace("(. .)", "(XP)")) == (4, 4, 4)
    assert score_sentence(CAT, CAT.replace("(. .)", "(XP )")).status is Status.ERROR


def test_words_may_stand_without_a_constituent() -> None:
    scored = score_sentence("(TOP (S (DT a) (NN dog)))", "(DT a) (NN dog)")
    assert (scored.recall, scored.precision, scored.correct_tags) == (0.0, 0.0, 2)


def test_length_has_punctuation_and_no_traces() -> None:
    def sentence(words: int, more: str) -> str:
        return "(TOP (S" + " (NN x)" * words + f" {more}))"

    pairs = [(tree, tree) for tree in (sentence(39, "(. .)"), sentence(40, "(-NONE- *)"))]
    long = [(tree, tree) for tree in (sentence(40, "(. .)"), sentence(41, ""))]
    scores = score(pairs + long)
    assert (scores.all.sentences, scores.short.sentences, scores.cutoff) == (4, 2, 40)
    assert scores.short.words == 79
    assert score(long).short.valid == 0


def test_summary_has_the_figures_of_the_valid_sentences() -> None:
    gold = "(TOP (S (A (X a) (X b)) (B (X c) (X d))))"  # S, A, B
    middle = "(TOP (S (X a) (A (X b) (X c)) (Y d)))"  # S matches, A crosses A and B; a tag is wrong
    scores = score([(gold, gold), (gold, middle), (gold, "(TOP (X a))"), (gold, "")])
    summary = scores.all
    assert (summary.sentences, summary.errors, summary.skipped, summary.valid) == (4, 1, 1, 2)
    assert summary.recall == pytest.approx(100 * 4 / 6)
    assert summary.precision == pytest.approx(100 * 4 / 5)
    assert summary.f1 == pytest.approx(100 * 2 * 4 / (6 + 5))
    assert (summary.complete_match, summary.average_crossing) == (50.0, 0.5)
    assert (summary.no_crossing, summary.two_or_less_crossing) == (50.0, 100.0)
    assert summary.tagging_accuracy == 87.5
    assert scores.short == summary


def test_two_crossing_constituents_are_few_and_three_are_not() -> None:
    gold = "(S (A (X a) (X b)) (X c) (X d) (X e))"
    two = "(S (X a) (Q (Q (X b) (X c)) (X d)) (X e))"
    assert score_sentence(gold, two).crossing == 2
    three = "(S (X a) (Q (Q (Q (X b) (X c)) (X d)) (X e)))"
    assert score_sentence(gold, three).crossing == 3
    summary = score([(gold, two), (gold, three)]).all
    assert (summary.two_or_less_crossing, summary.no_crossing) == (50.0, 0.0)


def test_f1_is_zero_where_nothing_matches() -> None:
    summary = score([("(A (X a))", "(B (X a))")]).all
    assert (summary.recall, summary.precision, summary.f1) == (0.0, 0.0, 0.0)
    assert score([(CAT, "")]).all.f1 == 0.0


def test_labels_are_counted_and_prt_as_advp() -> None:
    gold = "(TOP (S (NP (PRP we)) (VP (VB give) (PRT (RP up)) (ADVP (RB now)))))"
    predicted = "(TOP (S (NP (PRP we)) (X (VB give) (ADVP (RP up)) (RB now))))"
    labels = score([(gold, predicted), (CAT, "")]).labels
    assert labels == {
        "ADVP": LabelCount(gold=2, predicted=1, matched=1),
        "NP": LabelCount(gold=1, predicted=1, matched=1),
        "S": LabelCount(gold=1, predicted=1, matched=1),
        "VP": LabelCount(gold=1, predicted=0, matched=0),
        "X": LabelCount(gold=0, predicted=1, matched=0),
    }


def test_labels_may_be_left_out_of_the_comparison() -> None:
    unlabeled = replace(COLLINS, labeled=False)
    other = CAT.replace("(VP", "(X").replace("(NP", "(Y")
    assert len(score_sentence(CAT, other, unlabeled).matched) == 4


def test_words_may_be_the_same_and_another_length_be_short() -> None:
    parameters = replace(COLLINS, equal_words=(("the", "a"),), cutoff=5)
    swapped = CAT.replace("(DT the)", "(DT A)").replace("(DT a)", "(DT the)").replace("A)", "a)")
    assert len(score_sentence(CAT, swapped, parameters).matched) == 4
    assert score([(CAT, swapped)], parameters).short.sentences == 0


def test_what_equals_a_deleted_label_is_deleted() -> None:
    parameters = replace(COLLINS, deleted=COLLINS.deleted | {"PRT"})
    tree = "(TOP (VP (VB give) (ADVP (RP up))))"
    assert score_sentence(tree, tree, parameters).gold == ("VP",)


def test_there_are_no_limits() -> None:
    words = " ".join(f"(NP (NN {'word' * 50}{number}))" for number in range(1000))
    tree = f"(TOP (S {words}))"
    assert counts(tree, tree) == (1001, 1001, 1001)
    deep = "(X " * 5000 + "(NN a)" + ")" * 5000
    assert counts(deep, deep) == (5000, 5000, 5000)
    assert score([(CAT, "(NN a)")] * 50 + [(CAT, CAT)]).all.errors == 50


def random_tree(rng: random.Random, words: list[str]) -> Constituent:
    """A random tree over these words."""
    cuts = sorted(rng.sample(range(1, len(words)), rng.randint(0, min(2, len(words) - 1))))
    parts = [words[a:b] for a, b in zip([0, *cuts], [*cuts, len(words)], strict=True)]
    children = [
        random_tree(rng, part)
        if len(part) > 1 and len(part) < len(words) or rng.random() < 0.3
        else part
        for part in parts
    ]
    flat: list[Constituent | Word] = []
    for child in children:
        if isinstance(child, Constituent):
            flat.append(child)
        else:
            flat += [Word(rng.choice(["NN", "VB"]), word) for word in child]
    return Constituent(rng.choice(["NP", "VP", "ADVP", "PRT"]), tuple(flat))


def reference_constituents(tree: Constituent) -> Counter[tuple[int, int, str]]:
    """The labelled spans of a tree that has nothing to delete, with ADVP in place of PRT."""
    found: Counter[tuple[int, int, str]] = Counter()

    def width(node: Constituent | Word, start: int) -> int:
        if isinstance(node, Word):
            return 1
        end = start
        for child in node.children:
            end += width(child, end)
        found[start, end, node.label.replace("PRT", "ADVP")] += 1
        return end - start

    width(tree, 0)
    return found


def random_pairs() -> list[tuple[Constituent, Constituent]]:
    rng = random.Random(7)
    pairs = []
    for _ in range(200):
        words = [rng.choice("abc") for _ in range(rng.randint(1, 9))]
        pairs.append((random_tree(rng, words), random_tree(rng, words)))
    return pairs


def test_matched_is_the_common_part_of_both_bags_of_constituents() -> None:
    partial = 0
    for gold, predicted in random_pairs():
        bags = reference_constituents(gold), reference_constituents(predicted)
        common = (bags[0] & bags[1]).total()
        expected = common, bags[0].total(), bags[1].total()
        assert counts(write_tree(gold), write_tree(predicted)) == expected
        partial += 0 < common < min(expected[1:])
    assert partial > 50


def test_swapping_the_files_swaps_recall_and_precision() -> None:
    pairs = [(write_tree(gold), write_tree(predicted)) for gold, predicted in random_pairs()]
    one, other = score(pairs).all, score([(b, a) for a, b in pairs]).all
    assert one.recall != one.precision
    assert (one.recall, one.precision) == (other.precision, other.recall)
    assert one.f1 == pytest.approx(other.f1)
    assert min(one.recall, one.precision) <= one.f1 <= max(one.recall, one.precision)
    assert (one.complete_match, one.tagging_accuracy) == (
        other.complete_match,
        other.tagging_accuracy,
    )


def test_a_corpus_against_itself_is_perfect() -> None:
    pairs = [(write_tree(tree), write_tree(tree)) for tree, _ in random_pairs()]
    summary = score(pairs).all
    assert (summary.recall, summary.precision, summary.f1) == (100.0, 100.0, 100.0)
    assert (summary.complete_match, summary.no_crossing) == (100.0, 100.0)
    assert summary.tagging_accuracy == 100.0

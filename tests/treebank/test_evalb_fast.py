"""The fast scorer of a sentence agrees with the reference, `reference_score`."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise

import pytest

from fairseq_aiayn.treebank import evalb
from fairseq_aiayn.treebank.evalb import (
    COLLINS,
    NEW,
    FastScorer,
    Parameters,
    Status,
    reference_score,
)

TREE = "(TOP (S (NP (DT the) (NN cat)) (VP (VBD saw) (NP (DT a) (NN bird))) (. .)))"
LABELS = (
    "NP",
    "NP",
    "VP",
    "S",
    "NP-SBJ-1",
    "NP=2",
    "ADVP",
    "PRT",
    "ADVP-TMP",
    "TOP",
    "",
    "-X",
    "é",
)
TAGS = ("NN", "NN", "NN", "DT", "PRT", "ADVP", "NN-1", "POS", ",", ".", "''", "-NONE-", "")
FORMS = ("a", "a", "b", "'", ",", "x\u00a0y", "\u2028", "-LRB-", "\0")
PARAMETERS = (
    COLLINS,
    NEW,
    replace(COLLINS, labeled=False),
    # equal labels that are not transitive, and words that count but not in the length
    replace(
        NEW,
        equal_labels=(("NP", "VP"), ("VP", "S"), ("DT", "NN")),
        equal_words=(("a", "b"),),
        deleted_for_length=frozenset({"NN", "-NONE-"}),
    ),
    Parameters(name="nothing set"),
)


def grown(draw: random.Random, words: list[str], depth: int) -> str:
    """A random bracket over some words, which may have further brackets inside."""
    cuts = {0, len(words), *draw.choices(range(len(words) + 1), k=2)}
    parts = [words[a:b] for a, b in pairwise(sorted(cuts))]
    children = [
        grown(draw, part, depth - 1) if depth and draw.random() < 0.7 else " ".join(part)
        for part in parts
    ]
    return f"({draw.choice(LABELS)} {' '.join(children)})"


def line(draw: random.Random, forms: list[str]) -> str:
    """A line over these forms; one line in three has something unusual."""
    words = [f"({draw.choice(TAGS)} {form})" for form in forms]
    text = f"(TOP {grown(draw, words, 5)})\n"
    if draw.random() < 0.3:
        place = draw.randrange(len(text))
        odd = draw.choice(("", "(", ")", "\t", "  ", " ) ", "(X)", "(X )", " y", "\r\n", "(A b)"))
        text = text[:place] + odd + text[place + draw.randint(0, 1) :]
    return text


def said(gold: str, predicted: str, parameters: Parameters) -> object:
    """The score of the reference, or its reason to refuse the text."""
    try:
        return reference_score(gold, predicted, parameters)
    except ValueError as error:
        return str(error)


@pytest.mark.parametrize("parameters", PARAMETERS, ids=lambda parameters: parameters.name)
def test_the_fast_way_scores_as_the_plain_one(parameters: Parameters) -> None:
    """It leaves to the reference all sentences that are not valid, and of the valid ones only those
    with an unusual layout."""
    draw = random.Random(1)
    score = FastScorer(parameters).score
    evalb = 0
    for _ in range(2_000):
        forms = draw.choices(FORMS, k=draw.choice((1, 3, 8, 20)))
        gold, predicted = line(draw, forms), line(draw, forms)
        for pair in ((gold, predicted), (gold, gold)):
            found = score(*pair)
            if found is not None:
                evalb += 1
                assert found == said(*pair, parameters), pair
                assert found.status is Status.VALID
    assert evalb > 1_000


@pytest.mark.parametrize(
    "predicted",
    [
        TREE,
        f"{TREE}\r\n",
        TREE.replace("(VP", "(ADJP"),
        TREE.replace("TOP", "ROOT"),
        TREE.replace("(NN cat)) (VP", "(NN cat) (VP").replace("(. .)", "(. .))")[:-1] + ")",
        TREE.replace("(TOP", "( ").replace(")))", ") ) ) "),
        TREE.replace("(NP (DT the)", "(NP-SBJ-1 (-NONE- *T*) (DT the)"),
        TREE.replace("(. .)", ""),
        TREE.replace("(. .)", "(. ?)").replace("(NN bird)", "(NN\t bird )"),
    ],
)
def test_usual_sentences_go_the_fast_way(predicted: str) -> None:
    """Breaks if the reference silently does the work."""
    scored = FastScorer(COLLINS).score(TREE, predicted)
    assert scored is not None and scored == reference_score(TREE, predicted, COLLINS)


@pytest.mark.parametrize(
    "odd",
    [
        "",
        "\n",
        "()",
        "(TOP (. .))",
        TREE[:-1],
        f"{TREE})",
        f"){TREE}",
        f"{TREE} a",
        f"a {TREE}",
        TREE.replace("(DT a)", "a"),
        TREE.replace("(DT a)", "(DT a b)"),
        TREE.replace("(DT a)", "(DT\ta)"),
        TREE.replace("(DT a)", "(DT a)(X)"),
        TREE.replace("(DT a)", "(DT )"),
        TREE.replace("cat", "Cat"),
    ],
)
def test_anything_else_does_not(odd: str) -> None:
    for pair in ((odd, TREE), (TREE, odd), (odd, odd)):
        scored = FastScorer(COLLINS).score(*pair)
        assert scored is None or scored == reference_score(*pair, COLLINS)
        assert scored is None or pair[0] == pair[1]


def test_what_is_remembered_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evalb, "REMEMBERED", 5)
    scorer = FastScorer(COLLINS)
    for number in range(20):
        tree = TREE.replace("VP", f"VP{number}")
        assert scorer.score(tree, tree) == reference_score(tree, tree, COLLINS)
        assert len(scorer._before_forms) <= 5


@pytest.mark.parametrize("words", [3, 200])
def test_many_constituents_that_only_one_tree_has(words: int) -> None:
    """Left-branching against right-branching: all constituents but the whole cross another one."""
    forms = [f"(X {number})" for number in range(words)]
    left = "(L " * (words - 1) + " ".join([forms[0], *(f"{form})" for form in forms[1:])])
    right = " ".join([*(f"(R {form}" for form in forms[:-1]), forms[-1]]) + ")" * (words - 1)
    scored = FastScorer(COLLINS).score(left, right)
    assert scored == reference_score(left, right, COLLINS)
    assert scored is not None and scored.crossing == words - 2

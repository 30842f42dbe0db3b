"""The translations of a test set in the output of fairseq-generate."""

import random

import pytest

from fairseq_aiayn.runs.hypotheses import hypotheses


@pytest.mark.parametrize("kind", ["D", "H"])
def test_the_first_hypothesis_of_every_sentence_in_the_order_of_the_test_set(kind: str) -> None:
    """Breaks if n-best lists are read from their end, or batches are not put in order."""
    sentences = list(range(12))
    random.Random(1).shuffle(sentences)
    lines = ["S-0\ta source", "T-0\ta reference"]
    for number in sentences:
        for rank in range(3):
            lines += [f"{letter}-{number}\t-0.{rank}\t{letter} {number} {rank}" for letter in "HD"]
    assert hypotheses(lines, kind) == [f"{kind} {number} 0" for number in range(12)]


def test_a_sentence_without_a_hypothesis_is_named() -> None:
    with pytest.raises(ValueError, match="D- line of every sentence, got none of 1$"):
        hypotheses(["D-0\t-1.0\ta", "D-2\t-1.0\tb"])

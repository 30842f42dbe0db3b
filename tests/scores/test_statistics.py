"""How sure a difference between systems is, and in which sentences it lies."""

import random
import statistics

import pytest

from fairseq_aiayn.scores import (
    SAMPLES,
    SAMPLES_OF_DIFFERENCE,
    f1_difference,
    largest_disagreements,
    paired_bootstrap,
    sentence_chrf,
)

WORDS = [f"w{k}" for k in range(40)]
REFERENCE = [" ".join(WORDS[k % 20 : k % 20 + 6 + k % 9]) for k in range(60)]
SPOILT = [" ".join(["no", *line.split()[1:]]) for line in REFERENCE]  # one word of each is wrong
LINES = (["the cat sat", ""], ["the dog", "x y"])
RARELY = [*SPOILT[:1], *REFERENCE[1:]]


def test_a_better_system_is_told_from_a_lucky_one():
    found = paired_bootstrap(
        {"first": RARELY, "same": RARELY, "lucky": REFERENCE, "worse": SPOILT}, REFERENCE
    )
    first, same, lucky, worse = found.systems.values()
    assert first.p_value is None
    assert worse.p_value < 0.05 and worse.score < first.score
    assert lucky.score == pytest.approx(100.0) and lucky.p_value > 0.05
    assert same.score == first.score and same.p_value == 1.0
    assert f"bs:{SAMPLES}" in found.signature and "seed:12345" in found.signature  # so it repeats


def test_the_test_of_f1_pairs_sentences():
    """F1 is of all constituents together, 200 * matched / (gold + predicted). Breaks if each parser
    gets samples of its own: what is hard for both would then hide a small difference that never
    fails."""
    rng = random.Random(1)
    hard = [rng.randrange(0, 90) for _ in range(60)]
    first = [(matched, 100, 100) for matched in hard]
    found = f1_difference(first, [(matched + 1, 100, 100) for matched in hard])
    assert (found.low, found.difference, found.high) == pytest.approx((1.0, 1.0, 1.0))
    assert found.p_value == pytest.approx(1 / (SAMPLES_OF_DIFFERENCE + 1))


def test_the_interval_is_that_of_the_usual_theory():
    """For sentences of one size, the difference of F1 is a mean, which has a standard error."""
    rng = random.Random(2)
    gains = [rng.randrange(-30, 50) for _ in range(400)]
    first = [(50, 100, 100)] * 400
    found = f1_difference(first, [(50 + gain, 100, 100) for gain in gains])
    error = statistics.pstdev(gains) / 400**0.5
    mean = statistics.mean(gains)
    assert found.difference == pytest.approx(mean)
    assert (found.low, found.high) == pytest.approx(
        (mean - 1.96 * error, mean + 1.96 * error), abs=0.1 * error
    )


def test_equal_parsers_differ_by_nothing_and_no_sentence_may_be_missing():
    same = [(1, 4, 4), (0, 0, 0)] * 30
    assert f1_difference(same, same) == f1_difference(same, list(same))
    assert (f1_difference(same, same).difference, f1_difference(same, same).p_value) == (0.0, 1.0)
    nothing = [(0, 0, 0)] * 60
    assert f1_difference(nothing, same).difference == pytest.approx(25.0)
    with pytest.raises(ValueError):
        f1_difference(same, same[1:])


def test_the_largest_differences_come_first_and_no_difference_never():
    chrf = {"a": [90.0, 10.0, 50.0, 70.0], "b": [80.0, 60.0, 50.001, 40.0]}
    found = largest_disagreements(chrf, 9)
    assert found == [1, 3, 0]
    assert largest_disagreements(chrf, 1) == [1]


def test_chrf_of_a_sentence_knows_a_good_one():
    first, second = (sentence_chrf(lines, ["the cat sat", "x y"]) for lines in LINES)
    assert first[0] == second[1] == 100.0
    assert first[1] == 0.0 and 0.0 < second[0] < 100.0

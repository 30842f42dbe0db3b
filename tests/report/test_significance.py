"""How sure a difference between systems is: over sentences, and over seeds."""

import math
import random
import re
import statistics

import pytest
from scipy.stats import t as student

from fairseq_aiayn.report.significance import (
    SAMPLES,
    SAMPLES_OF_DIFFERENCE,
    f1_difference,
    leads,
    mean_of,
    paired_bootstrap,
    seeds_difference,
)

WORDS = [f"w{k}" for k in range(40)]
REFERENCE = [" ".join(WORDS[k % 20 : k % 20 + 6 + k % 9]) for k in range(60)]
SPOILT = [" ".join(["no", *line.split()[1:]]) for line in REFERENCE]  # one word of each is wrong
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
    said = [re.sub(r"\d+\.\d+ sacreBLEU ", "", text) for text in leads(found, 100)]
    assert said == [
        *("first is ahead of same: may be chance", "lucky is ahead of first: may be chance"),
        "first is ahead of worse: significant",
    ]


def test_the_test_of_f1_pairs_sentences():
    """What is hard for both would otherwise hide a small difference that never fails."""
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


def test_sentences_without_constituents_count_and_the_same_sentences_give_the_same():
    pair = [(0, 0, 0)] * 60, [(1, 4, 4), (0, 1, 0)] * 30
    assert f1_difference(*pair).difference == pytest.approx(200 / 9)
    assert f1_difference(*pair) == f1_difference(*pair)


def test_a_difference_over_seeds_is_tested_by_welch():
    found = seeds_difference((27.0, 28.0, 30.0), (30.0, 30.0 + 2 / 3))
    error = (7 / 9 + 1 / 9) ** 0.5  # of s² / n of each, as the degrees of freedom
    freedom = (7 / 9 + 1 / 9) ** 2 / ((7 / 9) ** 2 / 2 + (1 / 9) ** 2)
    assert found.difference == pytest.approx(2.0)
    assert found.p_value == pytest.approx(2 * student.sf(2 / error, freedom))
    half = student.ppf(0.975, freedom) * error
    assert (found.low, found.high) == pytest.approx((2 - half, 2 + half))


@pytest.mark.parametrize("figures", [(9.87, 9.87), (27.0, math.inf), (27.0, math.nan)])
def test_figures_that_do_not_vary_or_diverged_have_no_test(figures):
    assert seeds_difference(figures, figures) is None


def test_seeds_have_a_mean_with_a_sample_deviation():
    assert mean_of((26.0, 27.0, 29.0)) == f"{82 / 3:.2f} ± {(7 / 3) ** 0.5:.2f}"
    lost = ((27.0, math.inf), (math.nan,), ())
    assert [*map(mean_of, lost)] == ["inf ± nan", "nan", ""]

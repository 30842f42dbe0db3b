"""Runs that differ in the seed alone: their means, and tests of differences between such groups."""

import math

import pytest
from run_directories import MADE, score, train_log, write_run
from scipy.stats import t as student

from fairseq_aiayn.runs.run import read_run
from fairseq_aiayn.runs.seeds import against, deviation, over_seeds


@pytest.fixture
def make_runs(tmp_path):
    """Return a function that reads runs of given seeds, BLEUs and other settings."""

    def make(*given: tuple[int, float, dict]) -> list:
        runs = []
        for k, (seed, bleu, other) in enumerate(given):
            settings = MADE | {"name": f"run-{k}", "seed": seed} | other
            files = {"score.json": score(bleu), "train.log": train_log(settings.pop("updates", 9))}
            runs.append(read_run(write_run(tmp_path / str(k), settings, **files))[0])
        return runs

    return make


def test_seeds_of_one_training_are_a_group_with_a_sample_deviation(make_runs):
    """The first run with a seed counts."""
    others = (2, 9.0, {}), (4, 9.0, {"row": "big"})
    (group,) = over_seeds(make_runs((1, 27.0, {}), (2, 28.0, {}), (3, 30.0, {}), *others))
    assert group.name == "run-0, run-1, run-2", "no name ends with its seed"
    assert group.runs == ("run-0", "run-1", "run-2")
    assert group.figures == {
        "BLEU as the paper's": (27, 28, 30),
        "sacreBLEU": (26, 27, 29),
        "development perplexity": (9.87,) * 3,
    }
    assert deviation(group.figures["sacreBLEU"]) == pytest.approx(math.sqrt(7 / 3))


def test_a_difference_over_seeds_is_tested_by_welch(make_runs):
    """Breaks if the variances are pooled, the interval is one-sided or the sign is the other way.

    Welch (1947): t is the difference over sqrt(s1²/n1 + s2²/n2), here 2 / sqrt(7/9 + 1/9), with
    (7/9 + 1/9)² / ((7/9)²/2 + (1/9)²/1) degrees of freedom.
    """
    bleus = {"ours": (27.0, 28.0, 30.0), "stock": (30.0, 30.0 + 2 / 3)}
    runs = make_runs(
        *(
            (seed, bleu, {"system": system, "name": f"{system}-{seed}"})
            for system, scores in bleus.items()
            for seed, bleu in enumerate(scores, 1)
        )
    )
    ours, stock = over_seeds(runs)
    assert (ours.name, stock.name) == ("ours", "stock")
    assert (ours.seeds, stock.seeds) == ((1, 2, 3), (1, 2))
    bleu, _, perplexity = against(ours, stock)
    assert perplexity is None, "nothing varies"
    error = (7 / 9 + 1 / 9) ** 0.5
    freedom = (7 / 9 + 1 / 9) ** 2 / ((7 / 9) ** 2 / 2 + (1 / 9) ** 2)
    assert bleu.difference == pytest.approx(2.0)
    assert bleu.p_value == pytest.approx(2 * student.sf(2 / error, freedom))
    half = student.ppf(0.975, freedom) * error
    assert (bleu.low, bleu.high) == pytest.approx((2 - half, 2 + half))


def test_a_seed_that_diverged_leaves_a_mean_without_deviation(make_runs):
    """Breaks if infinity ends the page on all the other runs."""
    (group,) = over_seeds(make_runs((1, 27.0, {}), (2, math.inf, {})))
    assert math.isnan(deviation(group.figures["BLEU as the paper's"]))
    assert against(group, group)[0] is None


def trained(options: str, **other: int) -> dict:
    return {"commands": {"train": f"fairseq-train {options}"}, **other}


@pytest.mark.parametrize(
    ("first", "second", "groups"),
    [
        ({}, {}, 1),
        ({}, {"averaged": 1}, 0),
        ({"text_sha256": "a"}, {"text_sha256": "b"}, 0),
        ({}, {"gpus": 8}, 0),
        (trained("bin"), trained("bin --fp16"), 0),
        # Directories and ports are the run's own
        (trained("a/bin --save-dir a --data 1"), trained("b/bin --save-dir b --data 2"), 1),
        # With --patience each run has its own number of updates
        (trained("bin", updates=300), trained("bin", updates=400), 0),
        (trained("bin --patience 3", updates=300), trained("bin --patience 3", updates=400), 1),
    ],
)
def test_a_group_differs_in_the_seed_and_in_what_changes_no_mathematics(
    make_runs, first, second, groups
):
    assert len(over_seeds(make_runs((1, 27.0, first), (2, 28.0, second)))) == groups

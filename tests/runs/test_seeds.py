"""Runs that differ in the seed alone: their means, and tests of differences between such groups."""

from __future__ import annotations

import math
import statistics

import pytest
from run_directories import MADE, score, train_log, write_run
from scipy.stats import t as student

from fairseq_aiayn.runs.run import against, first_seeds, over_seeds, read_run


@pytest.fixture
def make_runs(tmp_path):
    """Return a function that reads runs of given seeds, BLEUs and other settings."""

    def make(*given: tuple[int, float, dict]) -> list:
        return [
            read_run(
                write_run(
                    tmp_path / str(k),
                    MADE | {"name": f"run-{k}", "seed": seed} | other,
                    **{"score.json": score(bleu)},
                )
            ).run
            for k, (seed, bleu, other) in enumerate(given)
        ]

    return make


def test_seeds_of_one_training_have_a_mean_and_a_sample_deviation(make_runs):
    runs = make_runs((1, 27.0, {}), (2, 28.0, {}), (3, 30.0, {}), (1, 9.0, {"row": "big"}))
    (found,) = over_seeds(runs)
    assert found.name == "run-0, run-1, run-2", "no name ends with its seed"
    assert found.runs == ("run-0", "run-1", "run-2")
    assert found.what == ("BLEU as the paper's", "sacreBLEU", "development perplexity")
    assert found.means[:2] == pytest.approx((85 / 3, 82 / 3))
    assert found.deviations[0] == pytest.approx(statistics.stdev([27, 28, 30]))


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
    assert first_seeds(runs, [ours, stock]) == [runs[0], runs[3]]


def test_a_seed_that_diverged_leaves_a_mean_without_deviation(make_runs):
    """Breaks if infinity ends the page on all the other runs."""
    ours = make_runs((1, 27.0, {}), (2, math.inf, {}))
    (found,) = over_seeds(ours)
    assert math.isnan(found.deviations[0])
    assert against(found, found) == [None] * 3


def test_equal_seeds_are_tested_without_a_warning(make_runs, recwarn):
    other = [(seed, 28.0 + seed, {"row": "big"}) for seed in (1, 2, 3)]
    runs = make_runs((1, 27.0, {}), (2, 27.0, {}), (3, 27.0, {}), *other)
    first, second = over_seeds(runs)
    assert against(first, second)[0].difference == pytest.approx(3.0)
    assert not recwarn.list


def trained(options: str) -> dict:
    return {"commands": {"train": f"fairseq-train {options}"}}


def test_where_seeds_were_trained_makes_no_difference(make_runs):
    """Breaks if seeds of two directories, or of jobs with ports of their own, are no group."""
    first = trained("one/bin --save-dir one/checkpoints --distributed-port 12345")
    second = trained("two/bin --save-dir two/checkpoints --distributed-port 54321")
    assert len(over_seeds(make_runs((1, 27.0, first), (2, 28.0, second)))) == 1


def test_seeds_that_stop_early_are_a_group_whatever_their_updates(tmp_path):
    """Breaks if the mean of trainings with --patience is left out, or trainings of another length
    get into one."""
    groups = {}
    for option in ("", " --patience 3"):
        runs = []
        for seed, updates in ((1, 300), (2, 400)):
            settings = {"name": f"run-{seed}", "seed": seed}
            settings["commands"] = {"train": f"fairseq-train bin --max-update 900{option}"}
            directory = tmp_path / f"{option.strip()}{seed}"
            files = {"train.log": train_log(updates)}
            runs.append(read_run(write_run(directory, MADE | settings, **files)).run)
        groups[option] = over_seeds(runs)
    assert [len(found) for found in groups.values()] == [0, 1]


@pytest.mark.parametrize(
    "other", [{"seed": 1}, {"averaged": 1}, {"system": "stock"}, {"row": "big"}, {"gpus": 8}]
)
def test_what_differs_in_more_or_less_than_the_seed_is_no_group(make_runs, other):
    assert over_seeds(make_runs((1, 27.0, {}), (2, 28.0, other))) == []


def test_an_option_that_differs_makes_no_group_and_a_seed_counts_once(make_runs):
    same, other = trained("bin"), trained("bin --fp16")
    runs = make_runs((1, 27.0, same), (2, 28.0, same), (2, 9.0, same), (3, 30.0, other))
    (found,) = over_seeds(runs)
    assert found.runs == ("run-0", "run-1") and found.means[0] == 27.5

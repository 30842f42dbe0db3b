"""scores.py, difference.py, bleu_by_length.py, disagreement.py and seeds.py: how sure
a difference is, and where it lies."""

from __future__ import annotations

import math
import random
import statistics

import pytest
from run_directories import MADE, score, train_log, write_run
from sacrebleu.metrics import BLEU
from scipy.stats import t as student

from fairseq_aiayn.runs.seeds import against, first_seeds, over_seeds
from fairseq_aiayn.runs.translation_run import read_run
from fairseq_aiayn.scores import (
    CLASSES,
    SAMPLES_OF_DIFFERENCE,
    Contrast,
    bleu_by_length,
    contrasts,
    f1_difference,
    largest_disagreements,
    paired_bootstrap,
    sentence_chrf,
)
from fairseq_aiayn.treebank.evalb import Constituents

WORDS = [f"w{k}" for k in range(40)]
REFERENCE = [" ".join(WORDS[k % 20 : k % 20 + 6 + k % 9]) for k in range(60)]
SPOILT = [" ".join(["no", *line.split()[1:]]) for line in REFERENCE]  # one word of each is wrong
RARELY = [*SPOILT[:1], *REFERENCE[1:]]


def test_a_better_system_is_told_from_a_lucky_one():
    found = paired_bootstrap(
        {"first": RARELY, "same": RARELY, "lucky": REFERENCE, "worse": SPOILT}, REFERENCE, 200
    )
    first, same, lucky, worse = found.systems.values()
    assert first.p_value is None
    assert worse.p_value < 0.05 and worse.score < first.score
    assert lucky.score == pytest.approx(100.0) and lucky.p_value > 0.05
    assert same.score == first.score and same.p_value == 1.0
    assert "bs:200" in found.signature and "seed:12345" in found.signature


def test_the_same_texts_give_the_same_result():
    texts = {"a": RARELY, "b": SPOILT}
    assert paired_bootstrap(texts, REFERENCE, 50) == paired_bootstrap(texts, REFERENCE, 50)


def test_one_system_has_nothing_to_be_tested_against():
    with pytest.raises(ValueError, match="a test needs two systems, got 1"):
        paired_bootstrap({"a": REFERENCE}, REFERENCE)


def sentences(*of_each: tuple[int, int, int]) -> list[Constituents]:
    """60 sentences with these counts of matched, gold and predicted constituents, in turns."""
    return [Constituents(*of_each[k % len(of_each)]) for k in range(60)]


def test_a_better_parser_is_told_from_a_lucky_one():
    """F1 is of all constituents together, 200 * matched / (gold + predicted)."""
    first = sentences((1, 4, 4), (9, 10, 10))
    better = f1_difference(first, sentences((3, 4, 4), (9, 10, 10)))
    assert better.difference == pytest.approx(100 * (12 - 10) / 14)
    assert 0 < better.low < better.difference < better.high and better.p_value < 0.01
    lucky = f1_difference(first, [Constituents(4, 4, 4), *first[1:]])
    assert lucky.low == 0.0 < lucky.difference and lucky.p_value > 0.05


def test_the_test_of_f1_pairs_sentences():
    """Breaks if each parser gets samples of its own: what is hard for both would then hide a small
    difference that never fails."""
    rng = random.Random(1)
    hard = [rng.randrange(0, 90) for _ in range(60)]
    first = [Constituents(matched, 100, 100) for matched in hard]
    found = f1_difference(first, [Constituents(matched + 1, 100, 100) for matched in hard])
    assert (found.low, found.difference, found.high) == pytest.approx((1.0, 1.0, 1.0))
    assert found.p_value == pytest.approx(1 / (SAMPLES_OF_DIFFERENCE + 1))


def test_the_interval_is_that_of_the_usual_theory():
    """For sentences of one size, the difference of F1 is a mean, which has a standard error."""
    rng = random.Random(2)
    gains = [rng.randrange(-30, 50) for _ in range(400)]
    first = [Constituents(50, 100, 100)] * 400
    found = f1_difference(first, [Constituents(50 + gain, 100, 100) for gain in gains])
    error = statistics.pstdev(gains) / 400**0.5
    mean = statistics.mean(gains)
    assert found.difference == pytest.approx(mean)
    assert (found.low, found.high) == pytest.approx(
        (mean - 1.96 * error, mean + 1.96 * error), abs=0.1 * error
    )


def test_equal_parsers_differ_by_nothing_and_no_sentence_may_be_missing():
    same = sentences((1, 4, 4), (0, 0, 0))
    assert f1_difference(same, same) == f1_difference(same, list(same))
    assert (f1_difference(same, same).difference, f1_difference(same, same).p_value) == (0.0, 1.0)
    nothing = sentences((0, 0, 0))
    assert f1_difference(nothing, same).difference == pytest.approx(25.0)
    for other in (same[1:], []):
        with pytest.raises(ValueError, match="the same two sentences or more, got 60 and "):
            f1_difference(same, other)


def test_every_sentence_is_in_one_class_and_a_length_in_no_two():
    source = [" ".join(["x"] * (1 + k % 17)) for k in range(100)]
    reference = [f"{REFERENCE[k % 60]} {k}" for k in range(100)]
    classes = bleu_by_length(source, reference, {"right": reference, "empty": [""] * 100})
    assert len(classes) == CLASSES
    assert sum(one.sentences for one in classes) == 100
    assert [one.shortest for one in classes[1:]] == [one.longest + 1 for one in classes[:-1]]
    assert (classes[0].shortest, classes[-1].longest) == (1, 17)
    for one in classes:
        assert one.bleu == {"right": pytest.approx(100.0), "empty": 0.0}
        assert 12 <= one.sentences <= 30, "about a fifth each"


def test_a_class_is_scored_as_a_corpus_of_its_own():
    source = ["a b"] * 30 + ["a b c d"] * 30
    classes = bleu_by_length(source, REFERENCE, {"spoilt": SPOILT})
    assert [(one.shortest, one.longest, one.sentences) for one in classes] == [
        (2, 2, 30),
        (4, 4, 30),
    ]
    expected = BLEU().corpus_score(SPOILT[30:], [REFERENCE[30:]]).score
    assert classes[1].bleu["spoilt"] == expected


def test_after_a_frequent_length_classes_are_of_one_size_again():
    """Breaks if a class that is full at once is left with one sentence."""
    source = [" ".join(["x"] * length) for length in [5] * 50 + [*range(6, 56)]]
    reference = [f"{REFERENCE[k % 60]} {k}" for k in range(100)]
    classes = bleu_by_length(source, reference, {"right": reference})
    assert [one.sentences for one in classes] == [50, 13, 13, 12, 12]


def test_one_sentence_is_one_class():
    (only,) = bleu_by_length(["a b"], ["c d e f"], {"x": ["c d e f"]})
    assert (only.shortest, only.longest, only.sentences) == (2, 2, 1)


def test_the_largest_differences_come_first_and_no_difference_never():
    chrf = {"a": [90.0, 10.0, 50.0, 70.0], "b": [80.0, 60.0, 50.001, 40.0]}
    found = largest_disagreements(chrf, 9)
    assert [one.index for one in found] == [1, 3, 0]
    assert found[0].chrf == {"a": 10.0, "b": 60.0}
    assert [one.index for one in largest_disagreements(chrf, 1)] == [1]
    assert contrasts(chrf) == {"b": Contrast(better=1, worse=2, even=1)}


def test_chrf_of_a_sentence_knows_a_good_one():
    chrf = sentence_chrf(
        {"a": ["the cat sat", ""], "b": ["the dog", "x y"]}, ["the cat sat", "x y"]
    )
    assert chrf["a"][0] == chrf["b"][1] == 100.0
    assert chrf["a"][1] == 0.0 and 0.0 < chrf["b"][0] < 100.0


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
    (found,) = over_seeds(runs, {"BLEU": lambda run: run.bleu.score})
    assert found.name == "run-0, run-1, run-2", "no name ends with its seed"
    assert found.runs == ("run-0", "run-1", "run-2")
    assert found.what == ("BLEU",)
    assert found.means == (pytest.approx(85 / 3),)
    assert found.deviations == (pytest.approx(statistics.stdev([27, 28, 30])),)


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
    figures = {"BLEU": lambda run: run.bleu.score, "updates": lambda run: 3}
    ours, stock = over_seeds(runs, figures)
    assert (ours.name, stock.name) == ("ours", "stock")
    assert (ours.seeds, stock.seeds) == ((1, 2, 3), (1, 2))
    bleu, updates = against(ours, stock)
    assert updates is None, "nothing varies"
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
    (found,) = over_seeds(ours, {"BLEU": lambda run: run.bleu.score})
    assert math.isnan(found.deviations[0])
    assert against(found, found) == [None]


def test_equal_seeds_are_tested_without_a_warning(make_runs, recwarn):
    other = [(seed, 28.0 + seed, {"row": "big"}) for seed in (1, 2, 3)]
    runs = make_runs((1, 27.0, {}), (2, 27.0, {}), (3, 27.0, {}), *other)
    first, second = over_seeds(runs, {"BLEU": lambda run: run.bleu.score})
    assert against(first, second)[0].difference == pytest.approx(3.0)
    assert not recwarn.list


def trained(options: str) -> dict:
    return {"commands": {"train": f"fairseq-train {options}"}}


def test_where_seeds_were_trained_makes_no_difference(make_runs):
    """Breaks if seeds of two directories, or of jobs with ports of their own, are no group."""
    first = trained("one/bin --save-dir one/checkpoints --distributed-port 12345")
    second = trained("two/bin --save-dir two/checkpoints --distributed-port 54321")
    assert len(over_seeds(make_runs((1, 27.0, first), (2, 28.0, second)), {})) == 1


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
        groups[option] = over_seeds(runs, {})
    assert [len(found) for found in groups.values()] == [0, 1]


@pytest.mark.parametrize(
    "other", [{"seed": 1}, {"averaged": 1}, {"system": "stock"}, {"row": "big"}, {"gpus": 8}]
)
def test_what_differs_in_more_or_less_than_the_seed_is_no_group(make_runs, other):
    assert over_seeds(make_runs((1, 27.0, {}), (2, 28.0, other)), {}) == []


def test_an_option_that_differs_makes_no_group_and_a_seed_counts_once(make_runs):
    same, other = trained("bin"), trained("bin --fp16")
    runs = make_runs((1, 27.0, same), (2, 28.0, same), (2, 9.0, same), (3, 30.0, other))
    (found,) = over_seeds(runs, {"BLEU": lambda run: run.bleu.score})
    assert found.runs == ("run-0", "run-1") and found.means == (27.5,)

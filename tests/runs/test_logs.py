"""What logs say of how a training went."""

from __future__ import annotations

from argparse import Namespace

import pytest
from run_directories import PARAMETERS, inner, train_log, valid, write_log

from fairseq_aiayn.runs.logs import (
    last_options,
    learning_curves_of,
    read_log,
    training_of,
    validation_of,
)


@pytest.fixture
def log(tmp_path):
    """Return a function that writes a train.log and reads it."""
    return lambda *lines: read_log(write_log(tmp_path, *lines))


def test_time_is_that_of_the_clock_where_it_runs(log):
    """Validations and checkpoints count; a resumed start, whose clock stands at 0, has updates."""
    clock = [inner(10, 9.0, 4, 7), inner(20, 8.0, 4, 17), inner(30, 7.0, 4, 21)]
    stands = [inner(30, 7.5, 4), inner(40, 7.0, 5)]
    curves = learning_curves_of(log(*clock, *stands))
    assert curves.training.updates == (10, 20, 30, 40)
    assert curves.training.seconds == (7.0, 17.0, 21.0, 26.0)


def test_a_curve_has_the_figures_of_its_lines_and_the_time_of_the_updates_before(log):
    curves = learning_curves_of(
        log(inner(10, 9.0, 4), inner(20, 8.0, 6), valid(25, 7.5), inner(30, 7.0, 5), valid(30, 7))
    )
    assert curves.training.updates == (10, 20, 30)
    assert curves.training.seconds == (4.0, 10.0, 15.0)
    assert curves.training.loss == (9.0, 8.0, 7.0)
    assert curves.training.perplexity == (18.0, 16.0, 14.0)
    assert curves.rate == (1e-5, 2e-5, 3e-5)
    assert curves.validation.updates == (25, 30)
    assert curves.validation.seconds == (10.0, 15.0)
    assert curves.validation.loss == (7.5, 7.0)
    assert learning_curves_of(log(PARAMETERS)).training.updates == ()


def test_what_a_resumed_training_did_again_counts_once(log):
    """Breaks if updates that a kill undid stay in the curve, or their time is counted."""
    killed = [inner(10, 9.0), inner(20, 8.0), inner(30, 7.0), inner(40, 6.0), valid(40, 5.0)]
    again = [PARAMETERS, inner(20, 8.5), valid(20, 8.4), inner(30, 7.5)]
    curves = learning_curves_of(log(*killed, *again))
    assert curves.training.updates == (10, 20, 30)
    assert curves.training.loss == (9.0, 8.5, 7.5)
    assert curves.training.seconds[-1] == 15.0
    assert curves.validation.updates == (20,)


def test_options_are_those_of_the_newest_start(log):
    starts = [
        repr({"_name": None, "common": {"seed": 1}, "model": Namespace(arch="tiny", lr=[rate])})
        for rate in (0.1, 0.25)
    ]
    cut_off = "{'_name': None, 'model': Namespace(arch="
    options = last_options(log(*starts, "words", inner(10, 9.0), cut_off))
    assert options == {"seed": 1, "arch": "tiny", "lr": [0.25]}
    assert last_options(log("words", cut_off)) == {}


@pytest.mark.parametrize(
    ("lines", "peaks"),
    [
        ([], (None, None)),
        (["peak memory: 700 MiB"], (700, None)),
        (["peak memory: 900 MiB", "peak memory: 800 MiB, of the GPU 5000 MiB"], (900, 5000)),
    ],
)
def test_the_largest_peak_of_all_starts_is_the_runs(log, lines, peaks):
    training = training_of(log(train_log(100), *lines))
    assert (training.peak_memory, training.peak_gpu_memory) == peaks


def test_the_last_validation_of_a_log_counts(log):
    lines = [f'{{"valid_ppl": "{perplexity}"}}' for perplexity in (8.5, 7.25)]
    assert validation_of(log(*lines)).perplexity == 7.25

"""What logs say of how a training went."""

import pytest
from run_directories import MADE, PARAMETERS, inner, train_log, valid, write_log, write_run

from fairseq_aiayn.runs.logs import curves_of, last_perplexity, read_log, training_of


@pytest.fixture
def log(tmp_path):
    """Return a function that writes a train.log and reads it."""
    return lambda *lines: read_log(write_log(tmp_path, *lines))


def test_time_is_that_of_the_clock_where_it_runs(log):
    """Validations and checkpoints count; a resumed start, whose clock stands at 0, has updates."""
    clock = [inner(10, 9.0, 4, 7), inner(20, 8.0, 4, 17), inner(30, 7.0, 4, 21)]
    stands = [inner(30, 7.5, 4), inner(40, 7.0, 5)]
    seconds = curves_of(log(*clock, *stands))["seconds"]
    assert seconds == {10: 7.0, 20: 17.0, 30: 21.0, 40: 26.0}


def test_what_a_resumed_training_did_again_counts_once(log):
    """Breaks if updates that a kill undid stay in the curves, or their time is counted."""
    killed = [inner(10, 9.0), inner(20, 8.0), inner(30, 7.0), inner(40, 6.0), valid(40, 5.0)]
    again = [PARAMETERS, inner(20, 8.5), valid(20, 8.4), inner(30, 7.5)]
    curves = curves_of(log(*killed, *again))
    assert curves["loss"] == {10: 9.0, 20: 8.5, 30: 7.5}
    assert curves["perplexity"] == {10: 18.0, 20: 17.0, 30: 15.0}
    assert curves["learning rate"] == {10: 1e-5, 20: 2e-5, 30: 3e-5}
    assert curves["seconds"][30] == 15.0
    assert curves["development loss"] == {20: 8.4}


@pytest.mark.parametrize(
    ("lines", "peaks"),
    [
        ([], (None, None)),
        (["peak memory: 900 MiB", "peak memory: 800 MiB, of the GPU 5000 MiB"], (900, 5000)),
    ],
)
def test_the_largest_peak_of_all_starts_is_the_runs(log, lines, peaks):
    training = training_of(log(train_log(100), *lines))
    assert (training.peak_memory, training.peak_gpu_memory) == peaks


def test_the_last_validation_of_a_log_counts(log):
    lines = [f'{{"valid_ppl": "{perplexity}"}}' for perplexity in (8.5, 7.25)]
    assert last_perplexity(log(*lines)) == 7.25


COUNTS = ("epoch", "num_updates", "train_num_updates", "valid_num_updates")
AMOUNTS = ("train_wpb", "train_train_wall", "train_wps", "train_wall", "wall", "loss", "valid_ppl")
WRONG = ["null", "[]", '["x"]', "{}", "true", '"1/3"', "NaN", '"inf"', "1e400", "-1", "9" * 5000]
DEEP = '{"a": ' * 20_000 + "1" + "}" * 20_000


def test_a_line_whose_epoch_or_updates_are_no_count_says_nothing(log):
    sound = [inner(50, 9.0), valid(50, 8.0), train_log(100)]
    wrong = [f'{{"valid_ppl": 1, "{name}": {value}}}' for name in COUNTS for value in WRONG]
    read, expected = log(DEEP, *wrong, *sound, *wrong), log(*sound)
    for what in (training_of, curves_of, last_perplexity):
        assert what(read) == what(expected)


def test_what_is_no_amount_ends_no_command(tmp_path, aiayn):
    lines = [DEEP, "num. shared model params: " + "9" * 5000, inner(50, 9.0), valid(50, 8.0)]
    for name in AMOUNTS:
        counts = '"epoch": 1, "num_updates": 60, "train_num_updates": 60, "valid_num_updates": 60'
        lines += [f'{{{counts}, "{name}": {value}}}' for value in WRONG]
    log = "\n".join([*lines, train_log(100)])
    run = write_run(tmp_path / "run", MADE, **{"train.log": log})
    assert aiayn("compare", run, "--output", tmp_path / "out")[0] == 0
    for words in ((run,), (run / "train.log", "--row", "base")):
        assert aiayn("diagnose", *words)[0] == 0

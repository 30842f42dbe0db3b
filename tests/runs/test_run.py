"""runs/run.py: one run, read from what a recipe leaves, or refused by the file that is wrong."""

from pathlib import Path

import pytest
from faults import fault_of
from run_directories import END, GOLD, PARAMETERS, f1_score, train_log, write_run, write_search

from fairseq_aiayn.runs.run import read_run

NO_MACHINE = '{"system": "x", "resumed": [{"hardware": "X1"}]}'
KILLED = f"{train_log(10)}\n{PARAMETERS}"  # when it had been started again
UNPREDICTED = f1_score(1).replace('"predicted"', '"guessed"')
UNCOUNTED = '{"repairs": {"too deep": "x"}}'


def test_settings_and_logs_of_older_runs_will_do(tmp_path):
    old = {"settings.json": '{"system": "ours"}', "valid.log": '{"valid_ppl": "3"}\n'}
    run, _ = read_run(write_run(tmp_path / "a", **old))
    assert (run.name, run.settings.row, run.vocabulary) == ("ours", None, None)


def test_a_search_is_read_where_one_is(tmp_path, monkeypatch):
    monkeypatch.chdir(write_search(tmp_path / "a", part="valid-constrained"))
    run, _ = read_run(Path())
    assert (run.name, run.part) == ("a valid-constrained", "valid-constrained")
    assert (run.training.updates, run.dev_perplexity, run.vocabulary) == (12_000, 1.234, 7001)


@pytest.mark.parametrize(
    ("write", "file", "content", "message"),
    [
        (write_run, "settings.json", '{"system": ', "expected JSON"),
        (
            write_run,
            "settings.json",
            NO_MACHINE,
            "resumed.0.hardware: expected an object, got 'X1'",
        ),
        (write_run, "score.json", '{"sentences": 4}', "sacrebleu: missing key"),
        (write_run, "train.log", KILLED, "must be the log of a finished training, lacks 'done tr"),
        (write_run, "train.log", f"{PARAMETERS}\n{END}", "must be written with --log-format json"),
        (write_run, "valid.log", "", "must have a JSON line with 'valid_ppl', has none"),
        (write_run, "hypothesis.txt", "x\n", "expected the 4 sentences of score.json, got 1"),
        (write_search, "gold.trees", GOLD, "expected the 4 sentences of score.json, got 1"),
        (write_search, "score.json", UNPREDICTED, "labels.NP.predicted: "),
        (write_search, "repairs.json", UNCOUNTED, "repairs.too deep: expected a valid "),
    ],
)
def test_a_file_that_is_unfinished_or_wrong_is_named(tmp_path, write, file, content, message):
    directory = write(tmp_path / "a", **{file: content})
    assert fault_of(read_run, directory).startswith(f"{directory}/{file}: {message}")

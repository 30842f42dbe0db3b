"""What fairseq's commands do without the repairs; more of it is in tests/repairs/test_faults.py."""

import signal

import pytest
from fairseq_commands import PLUGIN, SIGNALLED, SMALL, TRANSLATE

# One batch holds the whole text, so that every update ends an epoch.
WHOLE = [*PLUGIN, *SMALL, "--max-tokens", "8192", "--save-interval-updates", "1"]
WHOLE += ["--no-epoch-checkpoints", "--max-update", "3"]


@pytest.fixture
def without(monkeypatch):
    """Leave these repairs out."""
    return lambda *names: monkeypatch.setenv("AIAYN_REPAIRS", ",".join(names))


def test_a_training(run, data_bin, tmp_path, without):
    """It has no checkpoints of the interval, logs lines three times, and ends not though it has."""
    without("epoch_ends", "finished", "log_file")
    log = tmp_path / "train.log"
    words = [data_bin, *WHOLE, "--log-file", log, "--save-dir", tmp_path / "checkpoints"]
    run("fairseq-train", *words)
    assert not list(tmp_path.glob("checkpoints/checkpoint_[0-9]*"))
    lines = [line for line in log.read_text().splitlines() if '"train_num_updates": "3"' in line]
    assert len(lines) == 3
    assert '"num_updates": "4"' in run("fairseq-train", *words).stdout


def test_a_signal_and_an_error(run, data_bin, tmp_path, monkeypatch, without):
    without("signals", "errors", "options")
    (tmp_path / "train.py").write_text(SIGNALLED)
    monkeypatch.setenv("SIGNAL", "SIGTERM 0 1")
    words = [data_bin, *WHOLE, "--save-interval-updates", "9", "--save-interval", "9"]
    words += ["--save-dir", tmp_path / "exp"]
    ended = run("python", tmp_path / "train.py", *words, fails=True)
    assert ended.returncode == -signal.SIGTERM
    assert not list(tmp_path.glob("exp/*.pt"))
    ended = run("fairseq-train", *words, "--best-checkpoint-metric", "bleu", fails=True)
    assert "Traceback" in ended.stderr  # a KeyError after the first validation


def test_a_search(run, data_bin, tmp_path, without):
    """It translates with a model of the other direction, and does not say what it leaves out."""
    without("direction", "left_out")
    words = [data_bin, *WHOLE, "-s", "de", "-t", "en", "--max-source-positions", "5"]
    words += ["--skip-invalid-size-inputs-valid-test", "--save-dir", tmp_path]
    assert "left out by" not in run("fairseq-train", *words).stdout
    path = tmp_path / "checkpoint_last.pt"
    words = [data_bin, *TRANSLATE, "-s", "en", "-t", "de", "--path", path]
    assert "H-0" in run("fairseq-generate", *words, "--skip-invalid-size-inputs-valid-test").stdout

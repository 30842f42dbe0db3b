"""Trainings that are killed and resumed, and checkpoints of --save-interval-updates."""

import signal

import pytest
import torch
from fairseq_commands import PLUGIN, SIGNALLED, SMALL, development_losses, losses, parameters

pytestmark = pytest.mark.needs_repairs

WITHIN_EPOCHS = ["--max-update", "20", "--save-interval-updates", "5", "--update-freq", "2"]
# One batch holds the whole text, so that every update ends an epoch.
WHOLE_EPOCHS = ["--max-tokens", "8192", "--max-update", "16", "--save-interval-updates", "5"]
WHOLE_EPOCHS += ["--no-epoch-checkpoints", "--save-interval", "1000"]
WHOLE_EPOCHS += ["--validate-interval", "1000000"]


@pytest.mark.parametrize("options", [WITHIN_EPOCHS, WHOLE_EPOCHS], ids=["within", "whole"])
def test_kill_and_resume_gives_the_same_losses(run, data_bin, tmp_path, monkeypatch, options):
    """Breaks if fairseq takes an update that ends an epoch for no interval's."""
    arguments = [data_bin, *PLUGIN, *SMALL, *options, "--dropout", "0.1"]
    undisturbed = run("fairseq-train", *arguments, "--save-dir", tmp_path / "undisturbed")
    arguments += ["--save-dir", tmp_path / "disturbed"]
    (tmp_path / "killed.py").write_text(SIGNALLED)
    monkeypatch.setenv("SIGNAL", "SIGKILL 0 12")  # without a chance to clean up
    killed = run("python", tmp_path / "killed.py", *arguments, fails=True)
    assert killed.returncode == -signal.SIGKILL
    resumed = run("fairseq-train", *arguments)

    expected = losses(undisturbed.stdout + undisturbed.stderr)
    assert losses(killed.stdout + killed.stderr) == {n: expected[n] for n in range(1, 13)}
    found = losses(resumed.stdout + resumed.stderr)
    assert found == {n: loss for n, loss in expected.items() if n > 10}
    names = ("undisturbed", "disturbed")
    ends = [parameters(tmp_path / name, max(expected)) for name in names]
    torch.testing.assert_close(*ends, atol=0, rtol=0)
    if options is WHOLE_EPOCHS:
        again = run("fairseq-train", *arguments)
        assert "the training is done already: 16 updates" in again.stdout + again.stderr
        assert [*development_losses(undisturbed.stdout + undisturbed.stderr)] == [5, 10, 15, 16]
        written = {path.name for path in (tmp_path / "undisturbed").iterdir()}
        numbers = {f"checkpoint_{n}_{n}.pt" for n in (5, 10, 15)}
        assert numbers <= written, written


@pytest.mark.parametrize(
    ("updates", "status", "done"),
    [("3", 128 + signal.SIGTERM, 4), ("0", -signal.SIGINT, None), ("3 3", -signal.SIGINT, None)],
)
def test_ctrl_c_ends_with_a_checkpoint(run, data_bin, tmp_path, monkeypatch, updates, status, done):
    """At once before the first update, and the second time. Breaks with an error of a worker."""
    program, last = tmp_path / "fairseq-train.py", tmp_path / "checkpoint_last.pt"
    program.write_text(SIGNALLED)
    monkeypatch.setenv("SIGNAL", f"SIGINT 0 {updates}")
    words = [data_bin, *PLUGIN, *SMALL, "--num-workers", "1", "--max-update", "9"]
    ended = run("python", program, *words, "--save-dir", tmp_path, fails=True)
    assert ended.returncode == status and "Traceback" not in ended.stderr
    assert ("fairseq-train: error: interrupted" in ended.stderr) == (done is None)
    assert last.exists() == (done is not None)
    if done:
        parameters(tmp_path, done)

"""A run that is killed and resumed continues like an undisturbed run."""

from __future__ import annotations

import signal
from pathlib import Path

import torch
from fairseq_commands import PLUGIN, SMALL, Run, losses

UPDATES = 40
LAST = 12  # the last update before the kill, two after a checkpoint
# fairseq-train that kills itself, without a chance to clean up.
KILLED = f"""
import os, signal
from fairseq.trainer import Trainer
from fairseq_cli.train import cli_main

train_step = Trainer.train_step

def killed(trainer, *arguments, **options):
    if trainer.get_num_updates() == {LAST}:
        os.kill(os.getpid(), signal.SIGKILL)
    return train_step(trainer, *arguments, **options)

Trainer.train_step = killed
cli_main()
"""


def train_arguments(data_bin: Path, save_dir: Path) -> list[str | Path]:
    """The arguments of a training with dropout and a checkpoint every 5 updates."""
    return [
        *(data_bin, *PLUGIN, *SMALL, "--save-dir", save_dir),
        *("--max-update", str(UPDATES), "--save-interval-updates", "5", "--update-freq", "2"),
        *("--dropout", "0.1"),
    ]


def test_kill_and_resume_gives_the_losses_of_an_undisturbed_run(run: Run, data_bin, tmp_path):
    undisturbed = run("fairseq-train", *train_arguments(data_bin, tmp_path / "undisturbed"))
    disturbed = train_arguments(data_bin, tmp_path / "disturbed")
    script = tmp_path / "killed.py"
    script.write_text(KILLED)
    killed = run("python", script, *disturbed, fails=True)
    assert killed.returncode == -signal.SIGKILL
    resumed = run("fairseq-train", *disturbed)

    expected = losses(undisturbed.stdout + undisturbed.stderr)
    before = losses(killed.stdout + killed.stderr)
    assert before == {update: loss for update, loss in expected.items() if update <= LAST}
    assert max(before) == LAST
    found = losses(resumed.stdout + resumed.stderr)
    assert found == {update: loss for update, loss in expected.items() if update > 10}
    assert max(found) == UPDATES
    ends = [
        torch.load(tmp_path / name / "checkpoint_last.pt") for name in ("undisturbed", "disturbed")
    ]
    for name, value in ends[0]["model"].items():
        torch.testing.assert_close(value, ends[1]["model"][name], atol=0, rtol=0)

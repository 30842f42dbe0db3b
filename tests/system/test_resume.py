"""A run that is killed and resumed continues like an undisturbed run."""

from __future__ import annotations

import signal
import subprocess
import time
import zipfile
from pathlib import Path

import torch
from fairseq_commands import PLUGIN, SMALL, Run, command, environment, losses

UPDATES = 40


def train_arguments(data_bin: Path, save_dir: Path) -> list[str | Path]:
    """The command line of a training with dropout and a checkpoint every 5 updates."""
    return [
        *("fairseq-train", data_bin, *PLUGIN, *SMALL, "--save-dir", save_dir),
        *("--max-update", str(UPDATES), "--save-interval-updates", "5", "--update-freq", "2"),
        *("--dropout", "0.1"),
    ]


def kill_after_first_checkpoint(arguments: list[str | Path], save_dir: Path) -> None:
    """Start a training and kill it, without a chance to clean up, when it continues after its
    second checkpoint."""
    process = subprocess.Popen(
        command(*arguments),
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    while process.poll() is None and not second_is_written(save_dir):
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()  # the training holds the pipe until it is gone
    assert process.returncode == -signal.SIGKILL, "the training ended before it could be killed"


def second_is_written(save_dir: Path) -> bool:
    """Whether there are two checkpoints, and checkpoint_last.pt, which fairseq writes in place, is
    a complete copy of the second."""
    numbered, last = list(save_dir.glob("checkpoint_*_*.pt")), save_dir / "checkpoint_last.pt"
    if len(numbered) < 2 or not zipfile.is_zipfile(last):
        return False
    return last.stat().st_mtime_ns >= max(path.stat().st_mtime_ns for path in numbered)


def test_kill_and_resume_gives_the_losses_of_an_undisturbed_run(run: Run, data_bin, tmp_path):
    undisturbed = run(*train_arguments(data_bin, tmp_path / "undisturbed"))
    disturbed = train_arguments(data_bin, tmp_path / "disturbed")
    kill_after_first_checkpoint(disturbed, tmp_path / "disturbed")
    resumed = run(*disturbed)

    expected = losses(undisturbed.stdout + undisturbed.stderr)
    found = losses(resumed.stdout + resumed.stderr)
    first = min(found)
    assert 5 < first < UPDATES, "the second run went on from a checkpoint"
    assert found == {update: loss for update, loss in expected.items() if update >= first}
    ends = [
        torch.load(tmp_path / name / "checkpoint_last.pt") for name in ("undisturbed", "disturbed")
    ]
    for name, value in ends[0]["model"].items():
        torch.testing.assert_close(value, ends[1]["model"][name], atol=0, rtol=0)

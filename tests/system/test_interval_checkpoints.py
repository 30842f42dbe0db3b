"""Checkpoints of --save-interval-updates, where every update ends an epoch."""

from __future__ import annotations

import json
import re
from pathlib import Path
from unittest.mock import Mock

import torch
from fairseq_commands import PLUGIN, SMALL, Run, losses
from omegaconf import OmegaConf

from fairseq_aiayn.plugin.resuming import IntervalCheckpoints

# One batch holds the whole text.
WHOLE_EPOCHS = [
    *("--max-tokens", "8192", "--max-update", "4", "--save-interval-updates", "2"),
    *("--no-epoch-checkpoints", "--save-interval", "1000000", "--validate-interval", "1000000"),
]


def validated(output: str) -> list[int]:
    """The updates after which fairseq's JSON log has a validation."""
    lines = re.findall(r"\| valid \| (\{.*)", output)
    return [int(json.loads(line)["valid_num_updates"]) for line in lines]


def test_each_is_validated_written_and_resumed_in_the_next_epoch(run: Run, data_bin, tmp_path):
    """Breaks if fairseq takes such an update for the end of an epoch alone."""
    save_dir = tmp_path / "checkpoints"
    arguments = [data_bin, *PLUGIN, *SMALL, *WHOLE_EPOCHS, "--save-dir", save_dir]
    undisturbed = run("fairseq-train", *arguments)
    assert validated(undisturbed.stdout + undisturbed.stderr) == [2, 4]
    written = {path.name for path in save_dir.iterdir()}
    names = {"checkpoint_2_2.pt", "checkpoint_4_4.pt", "checkpoint_best.pt", "checkpoint_last.pt"}
    assert written == names

    final = save_dir / "checkpoint_4_4.pt"
    expected = torch.load(final)["model"]
    final.unlink()
    resumed = run("fairseq-train", *arguments, "--restore-file", save_dir / "checkpoint_2_2.pt")
    after = losses(undisturbed.stdout + undisturbed.stderr)
    assert losses(resumed.stdout + resumed.stderr) == {update: after[update] for update in (3, 4)}
    for name, value in torch.load(final)["model"].items():
        torch.testing.assert_close(value, expected[name], atol=0, rtol=0)


def test_checkpoints_of_epochs_stay_fairseqs_own(run: Run, data_bin, tmp_path):
    arguments: list[str | Path] = [
        data_bin,
        *PLUGIN,
        *SMALL,
        "--save-dir",
        tmp_path / "checkpoints",
    ]
    arguments += ["--max-tokens", "8192", "--max-update", "2", "--save-interval-updates", "1"]
    run("fairseq-train", *arguments)
    written = {path.name for path in (tmp_path / "checkpoints").iterdir()}
    assert written == {
        "checkpoint1.pt",
        "checkpoint2.pt",
        "checkpoint_best.pt",
        "checkpoint_last.pt",
    }


def test_an_update_that_overflows_is_no_second_validation():
    """Breaks if --patience counts the validation of weights that have not changed."""
    calls = []
    wrapped = IntervalCheckpoints(lambda *arguments: calls.append(arguments[-1]) or ([1], True))
    cfg = OmegaConf.create(
        {"checkpoint": {"save_interval_updates": 2, "no_epoch_checkpoints": True}}
    )
    trainer, epoch = Mock(), Mock(epoch=1)

    def after(updates: int, end_of_epoch: bool = False) -> tuple:
        trainer.get_num_updates.return_value = updates
        return wrapped(cfg, trainer, None, epoch, ["valid"], end_of_epoch)

    assert after(2) == ([1], True) and after(2) == ([None], False) and calls == [False]
    assert after(2, end_of_epoch=True) == ([1], True)  # the epoch's end is no interval's, too
    assert calls == [False, True]
    assert after(4, end_of_epoch=True) == ([1], True) and calls == [False, True, False]

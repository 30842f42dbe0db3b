"""A trained model leaves fairseq as a folder and comes back, by the commands that users type."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
from fairseq_commands import PLUGIN, SMALL, Run, losses

QUIET = ("--no-epoch-checkpoints", "--disable-validation", "--seed", "3")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, run: Run, data_bin: Path) -> Path:
    """A model after a short training."""
    folder = tmp_path_factory.mktemp("trained")
    run(
        *("fairseq-train", data_bin, *PLUGIN, *SMALL, *QUIET),
        *("--max-update", "60", "--save-dir", folder),
    )
    return folder / "checkpoint_last.pt"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, run: Run, trained: Path, data_bin: Path):
    path = tmp_path_factory.mktemp("exported") / "model"
    run("aiayn", "export", "--checkpoint", trained, "--data-bin", data_bin, "--output", path)
    return path


@pytest.fixture(scope="module")
def again(tmp_path_factory: pytest.TempPathFactory, run: Run, folder: Path) -> Path:
    """The folder as a checkpoint."""
    path = tmp_path_factory.mktemp("again") / "checkpoint.pt"
    run("aiayn", "export", folder, "--to", "fairseq", "--output", path)
    return path


def generated(run: Run, checkpoint: Path, data_bin: Path) -> dict[int, tuple[str, str]]:
    """fairseq-generate's score and pieces of each sentence of the test set."""
    done = run(
        *("fairseq-generate", data_bin, *PLUGIN, "--task", "aiayn_translation", "--cpu"),
        *("--path", checkpoint, "--max-tokens", "256", "--num-workers", "0"),
    )
    found = re.findall(r"(?m)^H-(\d+)\t(\S+)\t(.*)$", done.stdout)
    return {int(number): (score, pieces) for number, score, pieces in found}


def test_translations_are_those_of_fairseq_generate(run, trained, folder, again, data_bin):
    before = generated(run, trained, data_bin)
    assert len(before) == 20 and generated(run, again, data_bin) == before
    text = (data_bin.parent / "test.en").read_text()
    out = run("aiayn", "translate", folder, "--scores", stdin=text).stdout.splitlines()
    lines = [line.split("\t") for line in out]
    assert [line[2] for line in lines] == [before[number][1] for number in range(20)]
    scores = [float(before[number][0]) * math.log(2) for number in range(20)]  # fairseq: in bits
    assert [float(line[0]) for line in lines] == pytest.approx(scores, abs=1e-4)


def test_a_training_goes_on_from_the_checkpoint_of_a_folder(
    run, trained, again, data_bin, tmp_path
):
    """With the losses that it has from the checkpoint of the training."""
    found = []
    for checkpoint in (trained, again):
        done = run(
            *("fairseq-train", data_bin, *PLUGIN, *SMALL, *QUIET, "--no-save"),
            *("--finetune-from-model", checkpoint, "--max-update", "4"),
            *("--save-dir", tmp_path / checkpoint.stem),
        )
        found.append(losses(done.stdout + done.stderr))
    assert found[0] == found[1] and len(found[0]) == 4
    assert float(found[0][1]) < 4.9, "random weights lose about 5.4 bits per token"

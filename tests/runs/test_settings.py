"""runs/record.py: what is noted of a training, of its later starts and of its end."""

import json
import os
import subprocess
import sys

import pytest
from run_directories import MADE

from fairseq_aiayn.runs import record as recording
from fairseq_aiayn.runs.record import settings_from_json

NVIDIA_SMI = """#!/bin/sh
case $1 in
--query-gpu=name,driver_version)
    case $3 in
    --id=1) echo 'NVIDIA H2, 550.1' ;;
    *) printf 'NVIDIA H1, 80GB, 550.1\\nNVIDIA H1, 80GB, 550.1\\n' ;;
    esac ;;
*) echo '| NVIDIA-SMI 550.1    Driver Version: 550.1    CUDA Version: 12.4     |' ;;
esac
"""


@pytest.fixture
def write(tmp_path):
    """Return a function that runs record.py beside two GPUs, and returns what it prints."""
    (tmp_path / "nvidia-smi").write_text(NVIDIA_SMI)
    (tmp_path / "nvidia-smi").chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"

    def run(*arguments: object) -> dict:
        command = [sys.executable, recording.__file__, *map(str, arguments)]
        environment = {**os.environ, "PATH": path}
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        return json.loads(done.stdout)

    return run


def test_settings_are_written_as_they_are_read(tmp_path, write):
    options = "--name a-1 --system aiayn --row base --corpus wmt14_en_de --gpus 8 --nodes 2"
    text = f"fairseq-train {recording.ROOT}/exp/bin --user-dir '{recording.ROOT}/my exp'"
    where = ["--seed", 7, "--device", "cuda"]
    training = write("training", *options.split(), *where, "--command", "train", text)
    (tmp_path / "training.json").write_text(json.dumps(training))
    evaluated = ["--training", tmp_path / "training.json", "--subset", "valid", "--average", 5]
    written = write("evaluation", *evaluated, "--command", "score", "aiayn bleu")

    settings = settings_from_json(written, "settings.json")
    assert set(written) == set(vars(settings)), "one name for what is written and what is read"
    assert (settings.name, settings.row, settings.corpus) == ("a-1", "base", "wmt14_en_de")
    assert (settings.subset, settings.averaged) == ("valid", 5)
    assert (settings.gpus, settings.nodes, settings.seed) == (8, 2, 7)
    assert settings.commands == {
        "train": "fairseq-train exp/bin --user-dir 'my exp'",  # from the root of the checkout
        "score": "aiayn bleu",
    }
    assert settings.hardware["gpus"] == ["NVIDIA H1, 80GB"] * 2
    assert (settings.hardware["driver"], settings.hardware["cuda"]) == ("550.1", "12.4")


def test_only_the_gpus_that_cuda_may_use_are_noted(write, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    training = write("training", *FIRST, "--command", "train", "fairseq-train bin")
    assert training["hardware"]["gpus"] == ["NVIDIA H2"]


FIRST = ["--name=a-1", "--system=aiayn", "--row=base", "--seed=7", "--device=cuda", "--gpus=2"]
LATER = ["--name=b", "--system=stock", "--row=big", "--seed=8", "--device=cpu", "--gpus=0"]


def test_a_training_that_goes_on_keeps_the_record_of_its_first_start(tmp_path, write):
    record = tmp_path / "training.json"
    resumes = ("--resumes", record)
    first = write(
        "training", *FIRST, "--nodes=1", *resumes, "--command", "train", "fairseq-train first"
    )
    assert first["resumed"] == []
    record.write_text(json.dumps(first | {"commit": "old", "written": "then"}))

    second = write(
        "training", *FIRST, "--nodes=1", *resumes, "--command", "train", "fairseq-train second"
    )
    record.write_text(json.dumps(second))
    third = write(
        "training", *LATER, "--nodes=3", *resumes, "--command", "train", "fairseq-train third"
    )
    assert {**third, "resumed": []} == first | {"commit": "old", "written": "then"}
    assert third["resumed"][0] == second["resumed"][0]
    keys = ("commit", "packages", "hardware")
    assert third["resumed"] == [
        {key: first[key] for key in keys} | start | {"written": entry["written"]}
        for entry, start in zip(
            third["resumed"],
            (
                {"device": "cuda", "gpus": 2, "nodes": 1, "command": "fairseq-train second"},
                {"device": "cpu", "gpus": 0, "nodes": 3, "command": "fairseq-train third"},
            ),
            strict=True,
        )
    ]
    record.write_text(json.dumps(third))
    written = write("evaluation", "--training", record, "--command", "score", "aiayn bleu")
    starts = settings_from_json(written, "settings.json").resumed
    assert [(start.device, start.nodes) for start in starts] == [("cuda", 1), ("cpu", 3)]
    assert written["commands"] == {"train": "fairseq-train first", "score": "aiayn bleu"}
    assert (written["commit"], written["evaluated_by"]) == ("old", first["commit"])


def test_a_record_from_before_there_was_a_list_gets_one(tmp_path, write):
    record = tmp_path / "training.json"
    record.write_text(json.dumps(MADE))
    written = write("training", *FIRST, "--resumes", record, "--command", "train", "fairseq-train")
    assert len(written["resumed"]) == 1
    assert {key: written[key] for key in MADE} == MADE


@pytest.mark.parametrize(
    ("record", "message"),
    [('{"system": ', "expected JSON"), ("{}", "system: missing key")],
)
@pytest.mark.parametrize(
    "words", [["training", *FIRST, "--resumes"], ["evaluation", "--training"]], ids=lambda it: it[0]
)
def test_a_record_that_is_none_is_named(words, record, message, tmp_path, monkeypatch):
    path = tmp_path / "training.json"
    path.write_text(record)
    words = [*words, str(path), "--command", "train", "x"]
    monkeypatch.setattr(sys, "argv", ["record.py", *words])
    with pytest.raises(SystemExit, match=f"^record: {path}: {message}"):
        recording.main()

"""What is noted of a training, of its later starts and of its end; what is shown of it meanwhile,
which never ends the command and leaves its log whole."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from run_directories import MADE

from fairseq_aiayn.runs import progress
from fairseq_aiayn.runs import record as recording
from fairseq_aiayn.runs.record import Settings, read_settings

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
FIRST = ["--name=a-1", "--system=aiayn", "--row=base", "--seed=7", "--device=cuda", "--gpus=2"]
LATER = ["--name=b", "--system=stock", "--row=big", "--seed=8", "--device=cpu", "--gpus=0"]


@pytest.fixture
def write(tmp_path):
    """Return a function that runs record.py beside two GPUs; what it prints is kept in a file."""
    (tmp_path / "nvidia-smi").write_text(NVIDIA_SMI)
    (tmp_path / "nvidia-smi").chmod(0o755)

    def run(path: Path, *arguments: object) -> dict:
        command = [sys.executable, recording.__file__, *map(str, arguments)]
        environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
        done = subprocess.run(command, capture_output=True, check=True, env=environment)
        path.write_bytes(done.stdout)
        return json.loads(done.stdout)

    return run


def test_settings_are_written_as_they_are_read(tmp_path, write, monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    text = f"fairseq-train {recording.ROOT}/exp/bin --user-dir '{recording.ROOT}/my exp'"
    training, path = tmp_path / "training.json", tmp_path / "settings.json"
    write(training, "training", *FIRST, "--corpus=x", "--nodes=2", "--command", "train", text)
    evaluated = ["--training", training, "--subset", "valid", "--average", 5]
    written = write(path, "evaluation", *evaluated, "--command", "score", "aiayn bleu")
    settings = read_settings(path)
    assert set(written) == set(vars(settings)), "one name for what is written and what is read"
    assert (settings.name, settings.row, settings.corpus) == ("a-1", "base", "x")
    assert (settings.subset, settings.averaged) == ("valid", 5)
    assert (settings.gpus, settings.nodes, settings.seed) == (2, 2, 7)
    assert settings.commands == {
        "train": "fairseq-train exp/bin --user-dir 'my exp'",  # from the root of the checkout
        "score": "aiayn bleu",
    }
    assert settings.hardware["gpus"] == ["NVIDIA H1, 80GB"] * 2
    assert (settings.hardware["driver"], settings.hardware["cuda"]) == ("550.1", "12.4")
    for visible, gpus in {"1": ["NVIDIA H2"], "": []}.items():
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        seen = write(tmp_path / "x", "training", *FIRST, "--command", "train", "fairseq-train bin")
        assert seen["hardware"]["gpus"] == gpus


def test_a_training_that_goes_on_keeps_the_record_of_its_first_start(tmp_path, write):
    """A record from before there were later starts in it gets them too."""
    record = tmp_path / "training.json"
    record.write_text(json.dumps(MADE))
    for command, options in (("fairseq-train second", FIRST), ("fairseq-train third", LATER)):
        go_on = ("--resumes", record, "--command", "train", command)
        last = write(record, "training", *options, "--nodes=3", *go_on)
    assert {key: last[key] for key in MADE} == MADE
    wheres = [{"device": "cuda", "gpus": 2, "nodes": 3}, {"device": "cpu", "gpus": 0, "nodes": 3}]
    for start, where in zip(last["resumed"], wheres, strict=True):
        assert start.items() >= where.items() and start["hardware"] and start["packages"]
    evaluated = ["--training", record, "--command", "score", "bleu"]
    settings = write(tmp_path / "settings.json", "evaluation", *evaluated)
    assert settings["resumed"] == last["resumed"]
    assert settings["commands"] == MADE["commands"] | {"score": "bleu"}
    assert settings["evaluated_by"] == last["resumed"][0]["commit"] != settings["commit"]


def test_the_options_of_a_command():
    command = "fairseq-train 'my bin' --seed 1 --fp16 --lr=0.5 --keep 5 --betas 0.9,0.98 --keep 6"
    options = {"--seed": "1", "--fp16": "yes", "--lr": "0.5", "--keep": "6", "--betas": "0.9,0.98"}
    made = Settings(system="stock", name="a", commands={"train": command})
    assert made.options("train") == options and made.options("generate") == {}


START = "2026-01-31 12:00:00 | INFO | "
INNER = {"loss": "9.1", "ppl": "77.5", "wps": "2450", "num_updates": "400"}
UNREADABLE = [
    f"{START}train_inner | {json.dumps(INNER)} {{}}\n",
    f'{START}train_inner | {{"epoch": 1,\n',
    f'{START}valid | {{"valid_num_updates": null}}\n',
    f"{{'max_update': {'9' * 5000}}}\n",
    f"{START}valid | {'{' * 100_000}\n",
    "no line end",
]


def show(directory: Path, lines: list[str], **streams: int) -> subprocess.CompletedProcess:
    """Run the display on these lines, with a log beside them."""
    command = [sys.executable, "-m", progress.__name__, "--log", directory / "log"]
    return subprocess.run(command, input="".join(lines).encode(), check=False, **streams)


def test_what_cannot_be_read_is_kept_and_passed_over(tmp_path):
    last = f'{START}valid | {{"valid_ppl": "8.5", "valid_num_updates": "900"}}\n'
    lines = [*UNREADABLE[:-1], last, "10%|#   |\r", UNREADABLE[-1]]
    done = show(tmp_path, lines, stderr=subprocess.PIPE)
    assert done.returncode == 0 and b"Traceback" not in done.stderr
    assert b"update    900: " in done.stderr and b"10%|#   |\r" in done.stderr
    assert (tmp_path / "log").read_text() == "".join(lines).replace("10%|#   |\r", "")


def test_a_broken_terminal_costs_no_line_of_the_log(tmp_path):
    """Breaks if the program that writes gets SIGPIPE, or the display's status ends a recipe."""
    lines = [f"{START}train_inner | {json.dumps(INNER)}\n", "10%|#   |\r", "words\n"] * 60
    read, write = os.pipe()
    os.close(read)
    done = show(tmp_path, lines, stderr=write)
    os.close(write)
    assert done.returncode == 0
    assert (tmp_path / "log").read_text() == "".join(line for line in lines if line[-1] == "\n")


def test_a_full_disk_does_not_end_the_command(tmp_path):
    (tmp_path / "log").symlink_to("/dev/full")
    done = show(tmp_path, ["words\n"] * 9999, stderr=subprocess.PIPE)
    assert done.returncode == 0
    assert done.stderr.count(b"No space left on device") == 1

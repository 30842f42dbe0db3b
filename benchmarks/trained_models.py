"""Train models shortly, for measuring translation, and keep them for later runs."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

from sides import Side, on_device
from workers import Worker, log_file

from fairseq_aiayn.runs.write_settings import packages

BATCH_TOKENS = 1_024  # a short training learns more from many small updates
WARMUP = 1_000  # with fewer updates, Equation 3's rates are too high to learn anything
CODE = ("nn", "training")  # folders of the package that a model's weights depend on
LENGTH = 12  # of a key, in hexadecimal digits


def find_model(side: Side, arguments: argparse.Namespace) -> Path:
    """Return a checkpoint of this side's --row, trained for --train-updates, perhaps by now.

    It is another one for other data, another seed, precision, shape or code of the model, or other
    versions of PyTorch and fairseq. It comes to its place when the training is over. WorkerDied if
    that fails.
    """
    command = training_command(side, arguments)
    name = f"{arguments.row}-{side.system}-{key(side, command, arguments.data)}"
    directory = arguments.work / "models" / name
    if not directory.exists():
        updates = f"{arguments.train_updates:,} updates"
        print(f"training {side.name} for {updates}: {name}", file=sys.stderr, flush=True)
        _train(side, command, directory, arguments)
    return directory / "checkpoint_last.pt"


def training_command(side: Side, arguments: argparse.Namespace) -> list[str]:
    """fairseq-train's arguments without data and directories: the row, in a short regime."""
    return [
        *("--task", side.task),
        *side.regime(arguments.row, BATCH_TOKENS, arguments.train_updates, WARMUP),
        *on_device(arguments.device),
        *("--seed", str(arguments.seed), "--required-batch-size-multiple", "1"),
        *("--save-interval-updates", "0", "--no-epoch-checkpoints", "--disable-validation"),
        *("--log-format", "simple", "--log-interval", "50"),
    ]


def key(side: Side, command: list[str], data: Path) -> str:
    """Return what tells a training from every other one."""
    text = [*data.glob("train.*-*.*"), *data.glob("dict.*.txt")]
    code = [file for folder in CODE for file in (side.package / folder).glob("*.py")]
    versions = {name: packages().get(name) for name in ("torch", "fairseq", "fairseq-fixed")}
    parts = [command, versions, digest(text), digest(code) if side.system == "aiayn" else None]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:LENGTH]


def digest(files: Iterable[Path]) -> str:
    """Return a hash of the names and the contents of files."""
    found = hashlib.sha256()
    for file in sorted(files):
        found.update(f"{file.name} {hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
    return found.hexdigest()


def _train(side: Side, command: list[str], directory: Path, arguments: argparse.Namespace) -> None:
    """Train under another name, and rename what is whole."""
    part = directory.with_name(f"{directory.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    where = [str(arguments.data), *side.plugin, "--save-dir", str(part)]
    log = log_file(arguments.work, f"training {side.name}")
    script = Path(__file__).with_name("command_worker.py")
    line = [script, arguments.device, "fairseq-train", *where, *command]
    with Worker(f"training {side.name}", line, log, side.environment) as worker:
        worker.answer()
    os.replace(part, directory)

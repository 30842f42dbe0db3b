"""Run fairseq's commands as a user does, and read their logs."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import fork_server
import torch

from fairseq_aiayn.checkpoints import read_checkpoint

ROOT = Path(__file__).resolve().parents[2]
PLUGIN = ["--user-dir", str(ROOT / "fairseq_aiayn")]
# A model that trains in seconds; all other options come from the row
SMALL = [
    *("--task", "aiayn_translation", "--arch", "aiayn_tiny", "--cpu"),
    *("--encoder-layers", "1", "--encoder-embed-dim", "32", "--encoder-ffn-embed-dim", "64"),
    *("--encoder-attention-heads", "2", "--d-k", "16", "--d-v", "16"),
    *("--criterion", "aiayn_label_smoothed_cross_entropy", "--label-smoothing", "0.1"),
    *("--optimizer", "aiayn_adam"),
    *("--lr-scheduler", "aiayn_inverse_sqrt", "--warmup-updates", "200", "--dropout", "0.0"),
    *("--max-tokens", "256", "--num-workers", "0", "--log-format", "json", "--log-interval", "1"),
]
# What fairseq's commands that use a model are given
TRANSLATE = [*PLUGIN, "--task", "aiayn_translation", "--cpu", "--num-workers", "0"]
TRANSLATE += ["--max-tokens", "256"]

# fairseq-train in which the process of a rank and its workers get a signal before these updates
SIGNALLED = """
import functools, multiprocessing, os, signal, torch
from fairseq.trainer import Trainer
from fairseq_cli.train import cli_main

train_step = Trainer.train_step
name, rank, *updates = os.environ.get("SIGNAL", "none none").split()
sent = os.environ.get("SENT", os.devnull)  # a line for each signal to a process before this one
del updates[: len(open(sent).readlines())]
torch.cuda.current_device = lambda: None  # of which --fp16 asks the number; a CPU has none

@functools.wraps(train_step)
def signalled(trainer, *arguments, **options):
    update = trainer.get_num_updates()
    while os.environ.get("RANK", "0") == rank and str(update) in updates[:1]:
        with open(sent, "a") as file:
            print(updates.pop(0), file=file)
        for pid in (*(one.pid for one in multiprocessing.active_children()), os.getpid()):
            os.kill(pid, getattr(signal, name))
    return train_step(trainer, *arguments, **options)

Trainer.train_step = signalled
cli_main()
"""

Run = Callable[..., subprocess.CompletedProcess]


def command(*arguments: str | Path) -> list[str]:
    """The command line of a tool, run by the fork server if that has it."""
    tool, *rest = map(str, arguments)
    if tool not in fork_server.COMMANDS:
        return installed(*arguments)
    return [str(fork_server.programs() / tool), *rest]


def installed(*arguments: str | Path) -> list[str]:
    tool, *rest = map(str, arguments)
    return [str(Path(sys.executable).parent / tool), *rest]


def environment() -> dict[str, str]:
    """One thread per process: results must not depend on the machine's cores."""
    return os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "PYTHONUTF8": "1"}


def losses(output: str, bar: str = "train_inner", prefix: str = "") -> dict[int, str]:
    """Losses by update number, as fairseq's JSON log prints them."""
    lines = map(json.loads, re.findall(rf"\| {bar} \| (\{{.*)", output))
    return {int(line[f"{prefix}num_updates"]): line[f"{prefix}loss"] for line in lines}


def development_losses(output: str) -> dict[int, str]:
    found = losses(output, "valid", "valid_")
    assert output.count("| valid | {") == len(found)
    return found


def parameters(directory: Path, updates: int) -> dict[str, torch.Tensor]:
    """Those of the last checkpoint, which must be of this update."""
    state = read_checkpoint(directory / "checkpoint_last.pt")
    assert state["optimizer_history"][-1]["num_updates"] == updates
    return state["model"]

"""Data-parallel training: two processes take the same steps as one with twice the update
frequency."""

from __future__ import annotations

from pathlib import Path

import torch
from fairseq_commands import PLUGIN, SMALL, Run, command

UPDATES = 6
# Dropout is off, because its draws differ between two processes and two accumulated batches
OPTIONS = [*SMALL, "--dropout", "0.0", "--max-update", str(UPDATES), "--ddp-backend", "legacy_ddp"]
# fairseq starts torch.distributed only if it sees GPUs, so this calls its entry point for CPUs
ENTRY = """
import os, sys
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.distributed.utils import distributed_main
from fairseq_cli.train import main

args = options.parse_args_and_arch(options.get_training_parser(), sys.argv[1:])
cfg = convert_namespace_to_omegaconf(args)
cfg.distributed_training.distributed_backend = "gloo"
cfg.distributed_training.distributed_init_method = "env://"
cfg.distributed_training.distributed_world_size = int(os.environ["WORLD_SIZE"])
cfg.distributed_training.distributed_rank = int(os.environ["RANK"])
distributed_main(int(os.environ["LOCAL_RANK"]), main, cfg, {})
"""


def test_two_processes_equal_one_with_update_frequency_2(run: Run, data_bin, tmp_path: Path):
    entry = tmp_path / "entry.py"
    entry.write_text(ENTRY)
    arguments = [data_bin, *PLUGIN, *OPTIONS]
    run(
        *("torchrun", "--standalone", "--nproc_per_node", "2"),
        *("--no-python", *command("python", entry), *arguments, "--save-dir", tmp_path / "two"),
    )
    run("fairseq-train", *arguments, "--update-freq", "2", "--save-dir", tmp_path / "one")
    two, one = (torch.load(tmp_path / name / "checkpoint_last.pt") for name in ("two", "one"))
    assert two["optimizer_history"][-1]["num_updates"] == UPDATES
    for name, value in one["model"].items():
        torch.testing.assert_close(two["model"][name], value, atol=1e-5, rtol=1e-4)

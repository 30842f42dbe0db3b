"""Processes with different options, text or checkpoints train on together: their models
drift apart, and the first one's is saved. Here, they are refused."""

from __future__ import annotations

import hashlib
import re
import socket
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from fairseq.trainer import Trainer

from fairseq_aiayn.configuration import flat_options, plain
from fairseq_aiayn.settings import option

# Options of a process, of its host's folders, and of what it writes
OF_A_PROCESS = re.compile(
    r"_|distributed_(?!world_size)|device_id|nprocs_per_node|num_workers|log_|aim_|wandb|azureml"
    r"|tensorboard|plasma|(?:data|save_dir|user_dir|restore_file|finetune_from_model)$"
)


def agreeing(
    load_checkpoint: Callable, cfg: Any, trainer: Trainer, **named: Any
) -> tuple[Any, Any]:
    """Load a checkpoint, as each process does once before its first update; raises ValueError, with
    what differs, unless all processes of a training are alike."""
    state, epoch = load_checkpoint(cfg, trainer, **named)
    processes = trainer.data_parallel_world_size
    if processes > 1:
        known: list[Any] = [None] * processes
        own = socket.gethostname(), facts(trainer, epoch)
        group = trainer.data_parallel_process_group
        torch.distributed.all_gather_object(known, own, group=group)
        first_host, first = known[0]
        for rank, (host, other) in enumerate(known):
            if reason := what_differs(first, other):
                pair = f"process 0 on {first_host} and {rank} on {host}"
                raise ValueError(f"{pair}: {reason}; all must be started alike")
    return state, epoch


def facts(trainer: Trainer, epoch: Any) -> dict[str, Any]:
    """Return what processes that train together have alike, by its names."""
    options = {
        option(name): str(value)
        for name, value in flat_options(plain(trainer.cfg)).items()
        if not OF_A_PROCESS.match(name)
    }
    symbols = (
        getattr(getattr(trainer.task, f"{side}_dictionary", None), "symbols", [])
        for side in ("source", "target")
    )
    dictionaries = "\n".join(" ".join(side) for side in symbols)
    # Other text, or the same in another order, has other lengths; not every task's data has some
    sizes = getattr(epoch.dataset, "sizes", None)
    lengths = np.ascontiguousarray(sizes.T if isinstance(sizes, np.ndarray) else ())
    return options | {
        "dictionaries": hashlib.sha256(dictionaries.encode()).hexdigest()[:8],
        "pairs": len(epoch.dataset),
        "their lengths": hashlib.sha256(lengths.data).hexdigest()[:8],
        "update": trainer.get_num_updates(),
    }


def what_differs(first: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """Return in what two processes differ; empty if in nothing."""
    pairs = {name: (first.get(name), other.get(name)) for name in [*first, *other]}
    unequal = ((name, *pair) for name, pair in pairs.items() if pair[0] != pair[1])
    return ", ".join(f"{name} {here} and {there}" for name, here, there in unequal)

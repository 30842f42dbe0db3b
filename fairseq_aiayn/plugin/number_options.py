"""Check numbers at the start that fairseq would stumble over late, or take for something else.

They are options of fairseq's own, for stock classes as well as for those of this package.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import signature
from math import inf
from pathlib import Path
from sys import float_info

import torch
from fairseq.data import data_utils
from fairseq.distributed import utils as distributed_utils
from fairseq.trainer import Trainer
from omegaconf import DictConfig, ListConfig

from fairseq_aiayn.checkpoints.reading import require_plain_file
from fairseq_aiayn.plugin.optimizer import read_betas
from fairseq_aiayn.regime.names import option

LARGEST = float_info.max
# Where fairseq's configuration has an option, its least and its largest value; NaN is none of them
BOUNDS = {
    ("dataset", "max_tokens"): (1, inf),
    ("dataset", "num_workers"): (0, 1000),  # each is a process
    ("optimization", "update_freq"): (1, inf),
    ("optimization", "lr"): (0, LARGEST),
    ("optimization", "clip_norm"): (-inf, inf),
    ("optimization", "max_update"): (0, inf),
    ("optimization", "max_epoch"): (0, inf),
    ("lr_scheduler", "warmup_updates"): (0, inf),
    ("optimizer", "adam_eps"): (0, LARGEST),
    ("optimizer", "weight_decay"): (0, LARGEST),
    ("criterion", "label_smoothing"): (0, 1),
    ("model", "dropout"): (0, 1),
    ("model", "attention_dropout"): (0, 1),
    ("model", "activation_dropout"): (0, 1),
}
NEED_A_MODEL = ("fairseq_cli.validate", "fairseq_cli.interactive")  # fairseq-generate says so


def look_before_use() -> None:
    """Check numbers before processes start, before the trainer begins, before batches are cut."""
    distributed_utils.call_main = starting(distributed_utils.call_main)
    Trainer.__init__ = looking(Trainer.__init__)
    data_utils.batch_by_size = dividing(data_utils.batch_by_size)


def looking(begin: Callable) -> Callable:
    """Wrap the trainer's constructor: ValueError for what it cannot train with."""

    @wraps(begin)
    def start(trainer: Trainer, cfg: DictConfig, *arguments: object, **options: object) -> None:
        if isinstance(cfg, DictConfig):  # not so where other programs make a trainer
            require_sound(cfg)
        begin(trainer, cfg, *arguments, **options)

    return start


def require_sound(cfg: DictConfig) -> None:
    """Raise ValueError for what a trainer cannot train with."""
    for (section, name), (least, largest) in BOUNDS.items():
        require_number(name, getattr(cfg[section], name, None), least, largest)
    betas = getattr(cfg.optimizer, "adam_betas", None)
    if isinstance(betas, str):
        read_betas(betas)
    for file in (cfg.checkpoint.restore_file, cfg.checkpoint.finetune_from_model):
        if file:  # fairseq would begin with fresh weights
            require_plain_file(Path(file))


def starting(call_main: Callable) -> Callable:
    """Wrap what starts the commands, in a process for each GPU; where it starts none, nothing is
    trained, and nothing is said."""

    @wraps(call_main)
    def start(cfg: DictConfig, main: Callable, **options: object) -> None:
        if getattr(main, "__module__", None) in NEED_A_MODEL and not cfg.common_eval.path:
            raise ValueError("--path must name a checkpoint")
        given = cfg.distributed_training
        if given.distributed_init_method is None:
            distributed_utils.infer_init_method(given)
        processes = min(torch.cuda.device_count(), given.distributed_world_size)
        spawns = given.distributed_init_method is not None and not given.distributed_no_spawn
        if spawns and processes < 1:
            raise ValueError(
                f"--distributed-world-size {given.distributed_world_size}: no process can start,"
                f" there are {torch.cuda.device_count()} GPUs"
            )
        call_main(cfg, main, **options)

    return start


def dividing(batch_by_size: Callable) -> Callable:
    """Wrap what cuts batches, whose compiled code divides by the multiple and ends the process
    where that is 0."""

    @wraps(batch_by_size)
    def cut(*arguments: object, **options: object) -> object:
        given = signature(batch_by_size).bind(*arguments, **options).arguments
        name = "required_batch_size_multiple"
        require_number(name, given.get(name), 1, inf)
        return batch_by_size(*arguments, **options)

    return cut


def require_number(name: str, given: object, least: float, largest: float) -> None:
    """Raise ValueError, naming option, rule and value; a list must have such numbers alone."""
    numbers = given if isinstance(given, ListConfig) else [given]
    if given is None or (numbers and all(least <= number <= largest for number in numbers)):
        return
    raise ValueError(f"{option(name)} must be a number from {least:g} to {largest:g}, got {given}")

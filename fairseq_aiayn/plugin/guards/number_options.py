"""Check at the start the numbers on which fairseq would fail late, or which it would misread.

They are fairseq's own options, for stock classes and for the classes of this package.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from math import inf
from pathlib import Path
from sys import float_info

import torch
from fairseq.data import data_utils
from fairseq.distributed import utils as distributed_utils
from fairseq.trainer import Trainer
from omegaconf import DictConfig, ListConfig

from fairseq_aiayn.plugin.guards.checked import checked
from fairseq_aiayn.plugin.guards.error_frames import module_name
from fairseq_aiayn.plugin.optimizer import read_betas
from fairseq_aiayn.settings import option
from fairseq_aiayn.text import require_plain_file

LARGEST = float_info.max
# The section and the name of an option, and its smallest and largest value; NaN is never allowed
BOUNDS = {
    ("dataset", "max_tokens"): (1, inf),
    ("dataset", "num_workers"): (0, 1000),  # each one is a process
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
# Commands that do not check by themselves that --path is given; fairseq-generate does
NEED_A_MODEL = ("fairseq_cli.validate", "fairseq_cli.interactive")


def install() -> None:
    """Make fairseq check numbers before it starts processes, creates a trainer or forms batches."""
    distributed_utils.call_main = checked(distributed_utils.call_main, require_processes)
    Trainer.__init__ = checked(Trainer.__init__, require_sound)
    data_utils.batch_by_size = checked(data_utils.batch_by_size, require_divisor)


def require_sound(trainer: Trainer, cfg: DictConfig, *others: object, **more: object) -> None:
    """Raise ValueError for options with which a trainer cannot work."""
    if not isinstance(cfg, DictConfig):  # other programs may create a trainer in other ways
        return
    for (section, name), (least, largest) in BOUNDS.items():
        require_number(name, getattr(cfg[section], name, None), least, largest)
    betas = getattr(cfg.optimizer, "adam_betas", None)
    if isinstance(betas, str):
        read_betas(betas)
    for file in (cfg.checkpoint.restore_file, cfg.checkpoint.finetune_from_model):
        if file:  # fairseq would start with new weights if the file is not a plain one
            require_plain_file(Path(file))


def require_processes(cfg: DictConfig, main: Callable, **options: object) -> None:
    """Raise ValueError if a model is not named, or if there is no process to start, where fairseq
    would silently do nothing."""
    command = module_name(getattr(main, "__globals__", {}))
    if command in NEED_A_MODEL and not cfg.common_eval.path:
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


def require_divisor(*arguments: object, **options: object) -> None:
    """Raise ValueError for a batch-size multiple of 0: compiled code divides by it, and the process
    would be killed."""
    given = signature(data_utils.batch_by_size).bind(*arguments, **options).arguments
    name = "required_batch_size_multiple"
    require_number(name, given.get(name), 1, inf)


def require_number(name: str, given: object, least: float, largest: float) -> None:
    """Raise ValueError, with the option, the rule and the value, unless `given` is None, a number
    in this range or a list of such numbers."""
    numbers = given if isinstance(given, ListConfig) else [given]
    if given is None or (numbers and all(least <= number <= largest for number in numbers)):
        return
    raise ValueError(f"{option(name)} must be a number from {least:g} to {largest:g}, got {given}")

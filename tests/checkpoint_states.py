"""What fairseq writes into checkpoints, in small, and what an attacker would put there."""

import os
from argparse import Namespace
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from fairseq.dataclass.utils import omegaconf_no_object_check
from omegaconf import DictConfig


def state_of(model: Mapping | None = None, updates: int = 1, **more: object) -> dict:
    """A training after so many updates; `more` has the options of the model, as args or as cfg."""
    history = {"criterion_name": "x", "optimizer_name": "x", "lr_scheduler_state": {}}
    return {
        "args": None,
        "model": OrderedDict(model or {"weight": torch.ones(2)}),
        "optimizer_history": [{**history, "num_updates": updates}],
        "extra_state": {"train_iterator": {"epoch": 1}},
        **more,
    }


def checkpoint(model: dict | Namespace | None = None, **more: object) -> dict:
    """A state with a configuration as fairseq has it today, by default of a model of ours."""
    cfg = {
        "model": model or Namespace(_name="aiayn_base", arch="aiayn_base"),
        "task": {"_name": "aiayn_translation"},
        "criterion": {"_name": "aiayn_label_smoothed_cross_entropy"},
    }
    return state_of(**{"cfg": cfg} | more)


def configuration(content: Mapping[str, object], ref_type: object = Any) -> DictConfig:
    """A configuration that may have objects in it, for which OmegaConf 2.0 has no flag."""
    with omegaconf_no_object_check():
        return DictConfig(content, ref_type=ref_type)


def save(path: Path, state: object) -> Path:
    torch.save(state, path)
    return path


class Intruder:
    """Creates the file `mark` by a shell command when it is unpickled without a guard."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple:
        return os.system, (f"touch {self.mark}",)


def expression(mark: Path) -> str:
    """Python that leaves a mark where it is evaluated, and looks like numbers to what reads it."""
    return f"__import__('pathlib').Path({str(mark)!r}).touch() or [(8, 3)]"

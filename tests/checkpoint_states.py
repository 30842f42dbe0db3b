"""What fairseq writes into checkpoints, in small."""

from __future__ import annotations

from argparse import Namespace
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path

import torch


def state_of(
    model: Mapping[str, torch.Tensor] | None = None, updates: int = 1, **more: object
) -> dict:
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
    """A state with a configuration as fairseq has it today, of a model of ours unless another is
    asked for."""
    cfg = {
        "model": model or Namespace(_name="aiayn_base", arch="aiayn_base"),
        "task": {"_name": "aiayn_translation"},
        "criterion": {"_name": "aiayn_label_smoothed_cross_entropy"},
    }
    return state_of(**{"cfg": cfg} | more)


def save(path: Path, state: object) -> Path:
    torch.save(state, path)
    return path

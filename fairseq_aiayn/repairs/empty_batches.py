"""If the last batch of a process in an update is empty, fairseq counts no target token of its other
batches, and divides the gradient by too little. Here, empty batches are left out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fairseq.trainer import Trainer


def without_empty_batches(
    train_step: Callable, trainer: Trainer, samples: list[Any], *options: object, **named: object
) -> object:
    """Do an update without empty batches if there are others."""
    return train_step(trainer, [*filter(None, samples)] or samples[:1], *options, **named)

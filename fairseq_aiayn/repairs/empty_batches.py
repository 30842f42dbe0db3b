"""If the last batch of a process in an update is empty, fairseq counts no target token of its other
batches, and divides the gradient by too little. Here, empty batches are left out."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from fairseq.trainer import Trainer


def without_empty_batches(train_step: Callable) -> Callable:
    """Wrap the function that does an update: it leaves out empty batches if there are others."""

    @wraps(train_step)
    def wrapped(trainer: Trainer, samples: list[Any], *options: object, **named: object) -> object:
        return train_step(trainer, [*filter(None, samples)] or samples[:1], *options, **named)

    return wrapped

"""What a checkpoint of fairseq must and must not hold, before anything is built of it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import omegaconf
from torch import Tensor

CONFIGURATIONS = ("args", "cfg")  # of fairseq before 0.10, and since

# Types of what may be missing
OPTIONAL = {"extra_state": dict, "last_optimizer_state": dict, "task_state": dict}
HISTORY = {"num_updates": int, "criterion_name": str, "optimizer_name": str}
HISTORY |= {"lr_scheduler_state": dict}
EXTRA = {"train_iterator": dict, "metrics": dict}
ITERATOR = {"epoch": int, "iterations_in_epoch": int}


def require_no_interpolation(path: Path, state: Mapping[str, Any]) -> None:
    """Raise ValueError for a configuration that asks OmegaConf for anything outside of itself.

    `${oc.env:HOME}` would be replaced by a variable of the environment when it is read. A reference
    within the configuration, `${optimization.lr}`, is what fairseq 0.10 to 0.12 writes.
    """
    for key in CONFIGURATIONS:
        for where, text in strings(state.get(key), key):
            _, reference, rest = text.partition("${")
            if reference and ":" in rest:
                raise ValueError(
                    f"{path}: {where} must not be computed when it is read, is {text[:60]!r}"
                )


def strings(value: Any, where: str) -> Iterator[tuple[str, str]]:
    """Yield every string of a configuration, at any depth, with its place."""
    if isinstance(value, str):
        yield where, value
        return
    for name, part in parts(value):
        yield from strings(part, f"{where}.{name}")


def parts(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield what a container of a configuration holds, as it is written, with names or numbers."""
    if isinstance(value, omegaconf.Node):
        value = value._content if isinstance(value, omegaconf.Container) else [value._value()]
    if isinstance(value, argparse.Namespace):
        value = vars(value)
    if isinstance(value, Mapping):
        yield from value.items()
    elif isinstance(value, Sequence | set) and not isinstance(value, str | bytes):
        yield from enumerate(value)


def require_contents(path: Path, state: Any) -> None:
    """Raise ValueError, naming path and field, for what fairseq would stumble over."""
    if not isinstance(state, dict) or not isinstance(state.get("model"), Mapping):
        raise ValueError(f"{path}: not a checkpoint of fairseq, it has no 'model'")
    for name, value in state["model"].items():
        if not isinstance(name, str) or not isinstance(value, Tensor):
            raise ValueError(
                f"{path}: 'model' must be parameters by their names, has {name!r} of type"
                f" {type(value).__name__}"
            )
    if all(state.get(key) is None for key in CONFIGURATIONS):
        raise ValueError(f"{path}: not a checkpoint of fairseq, it has neither 'args' nor 'cfg'")
    _require_history(path, state.get("optimizer_history"))
    if "extra_state" not in state and "epoch" not in state:
        raise ValueError(f"{path}: not a checkpoint of fairseq, it has no 'extra_state'")
    _require_fields(path, state, OPTIONAL)
    extra = state.get("extra_state", {})
    _require_fields(path, extra, EXTRA)
    _require_fields(path, extra.get("train_iterator") or {}, ITERATOR)


def _require_history(path: Path, history: Any) -> None:
    """The record of optimizers, of which fairseq reads the last."""
    entries = history if isinstance(history, list) else []
    if not entries or not all(isinstance(entry, dict) for entry in entries):
        raise ValueError(f"{path}: not a checkpoint of fairseq, it has no 'optimizer_history'")
    last = entries[-1]
    _require_fields(path, last, HISTORY)
    if "lr_scheduler_state" not in last and "best_loss" not in last:
        raise ValueError(f"{path}: its 'optimizer_history' has no 'lr_scheduler_state'")


def _require_fields(path: Path, values: Mapping[str, Any], kinds: Mapping[str, type]) -> None:
    for name, kind in kinds.items():
        value = values.get(name)
        if value is not None and (not isinstance(value, kind) or kind is int and value < 0):
            rule = "a whole number" if kind is int else f"a {kind.__name__}"
            raise ValueError(
                f"{path}: {name!r} must be {rule}, is {str(value)[:60]!r} of type"
                f" {type(value).__name__}"
            )

"""Check what a fairseq checkpoint holds, before anything is built from it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import omegaconf
from torch import Tensor

CONFIGURATIONS = ("args", "cfg")  # the first before fairseq 0.10, the second since
# fairseq's configurations have about 500 values on 4 levels. OmegaConf copies a list for every
# reference to it, so that a few nested lists could fill the memory.
MOST_VALUES, DEEPEST = 10_000, 50


def require_plain_configuration(path: Path, state: Mapping[str, Any]) -> None:
    """Raise ValueError for a configuration that is not plain data.

    It must not have tensors, more values or levels than a real one, or interpolations that reach
    outside of it: OmegaConf would replace `${oc.env:HOME}` by an environment variable. References
    within it, such as `${optimization.lr}`, are allowed: fairseq 0.10 to 0.12 writes them.
    """
    for key in CONFIGURATIONS:
        for names, leaf in leaves(path, state.get(key)):
            where = ".".join(map(str, (key, *names)))
            if isinstance(leaf, Tensor):
                raise ValueError(f"{path}: {where[:60]} must be a plain value, is a tensor")
            _, reference, rest = leaf.partition("${") if isinstance(leaf, str) else ("", "", "")
            if reference and ":" in rest:
                raise ValueError(
                    f"{path}: {where} must not be computed when it is read, is {leaf[:60]!r}"
                )


def leaves(path: Path, value: Any) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield every value of a configuration that is not a container, with the names that lead to it.

    Raises ValueError, with the path, for more values or levels than a configuration can have.
    """
    waiting, count = [((), value)], 0
    while waiting:
        names, value = waiting.pop()
        count += 1
        if count > MOST_VALUES or len(names) > DEEPEST:
            raise ValueError(
                f"{path}: a configuration must have at most {MOST_VALUES:,} values in {DEEPEST}"
                " levels"
            )
        if isinstance(value, omegaconf.Node):
            waiting.append((names, written(value)))
        elif members := [*parts(value)]:
            waiting.extend(((*names, name), part) for name, part in members)
        else:
            yield names, value


def plain_configuration(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration of a checkpoint that `require_plain_configuration` has accepted, as
    dictionaries, lists and values."""
    configuration = state.get("cfg") if state.get("cfg") is not None else state.get("args")
    return _plain(configuration)


def _plain(value: Any) -> Any:
    value = written(value)
    if isinstance(value, Mapping | argparse.Namespace):
        return {str(name): _plain(part) for name, part in parts(value)}
    is_list = isinstance(value, Sequence | set) and not isinstance(value, str | bytes)
    return [_plain(part) for _, part in parts(value)] if is_list else value


def parts(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the members of a container in a configuration, uninterpolated, by name or index."""
    value = written(value)
    if isinstance(value, argparse.Namespace):
        value = vars(value)
    if isinstance(value, Mapping):
        yield from value.items()
    elif isinstance(value, Sequence | set) and not isinstance(value, str | bytes):
        yield from enumerate(value)


def written(value: Any) -> Any:
    """Return the content of an OmegaConf node, uninterpolated, and any other value unchanged."""
    if isinstance(value, omegaconf.Container):
        return value._content
    return value._value() if isinstance(value, omegaconf.Node) else value


def require_contents(path: Path, state: Any) -> None:
    """Raise ValueError, with path and field, for content that fairseq could not load."""
    model = state.get("model") if isinstance(state, dict) else None
    if not model or not isinstance(model, Mapping):
        raise ValueError(f"{path}: not a checkpoint of fairseq, it has no 'model'")
    for name, value in model.items():
        if not isinstance(name, str) or not isinstance(value, Tensor):
            raise ValueError(
                f"{path}: 'model' must be parameters by their names, has {name!r} of type"
                f" {type(value).__name__}"
            )
    configurations = [written(state[key]) for key in CONFIGURATIONS if state.get(key) is not None]
    if not configurations:
        raise ValueError(f"{path}: not a checkpoint of fairseq, it has neither 'args' nor 'cfg'")
    if not all(isinstance(one, Mapping | argparse.Namespace) for one in configurations):
        raise ValueError(f"{path}: a configuration ('args' or 'cfg') must have values by names")
    if not isinstance(state.get("args"), argparse.Namespace | None):
        raise ValueError(f"{path}: 'args' must be a Namespace, is a {type(state['args']).__name__}")
    history = state.get("optimizer_history")
    if not history or not isinstance(history, list) or not isinstance(history[-1], dict):
        raise ValueError(f"{path}: not a checkpoint of fairseq, it has no 'optimizer_history'")
    if state.get("extra_state") is None and "epoch" not in state:
        raise ValueError(f"{path}: not a checkpoint of fairseq, it has no 'extra_state'")

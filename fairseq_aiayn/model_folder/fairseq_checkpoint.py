"""A checkpoint of this plugin's models becomes a model folder, and back again, bit for bit."""

from __future__ import annotations

from argparse import Namespace
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from fairseq_aiayn.checkpoints.averaging import write_checkpoint
from fairseq_aiayn.checkpoints.contents import plain_configuration
from fairseq_aiayn.checkpoints.reading import read_checkpoint
from fairseq_aiayn.nn.transformer import Transformer
from fairseq_aiayn.regime.names import ENCODER_AND_DECODER, OURS, SHARING
from fairseq_aiayn.runs.configuration import flat_options

# Where things lay on the machine of the training; a folder goes elsewhere
PLACES = ("data", "user_dir", "save_dir", "log_file", "tensorboard_logdir", "restore_file")


def read_model(path: Path) -> tuple[dict[str, object], dict[str, Tensor]]:
    """Return the options of a checkpoint's training, and its parameters by the names of
    nn/transformer.py.

    Raises OSError and ValueError as checkpoints/reading.py does, and ValueError for a model that is
    not this plugin's.
    """
    state = read_checkpoint(path)
    options = flat_options(plain_configuration(state))
    arch = str(options.get("arch"))
    if not arch.startswith(OURS):
        raise ValueError(
            f"{path}: must be a model of this plugin, is {arch!r}: stock fairseq's have other "
            "positions, biases and norms"
        )
    return options, {_short(name): tensor for name, tensor in state["model"].items()}


def once(
    parameters: Mapping[str, Tensor], transformer: Transformer, where: object
) -> dict[str, Tensor]:
    """Return the parameters without all names but the first of each matrix that a model shares.

    Raises ValueError, with the place, if they differ under two names of one matrix.
    """
    first: dict[Tensor, str] = {}
    found = dict(parameters)
    for name, own in transformer.named_parameters(remove_duplicate=False):
        other = first.setdefault(own, name)
        is_second = other != name and {name, other} <= found.keys()
        if is_second and not torch.equal(found.pop(name), found[other]):
            raise ValueError(f"{where}: {other} and {name} must be one matrix, differ")
    return found


def sizes_of(options: Mapping[str, object], where: object) -> dict[str, object]:
    """Return the sizes that options give; raises ValueError, with the place, if one is missing."""
    names = {symbol: f"encoder_{name}" for name, symbol in ENCODER_AND_DECODER.items()}
    names |= {"d_k": "d_k", "d_v": "d_v", "P_drop": "dropout"}
    if missing := [name for name in names.values() if name not in options]:
        raise ValueError(f"{where}: its configuration lacks {missing[0]!r}")
    sizes = {symbol: options[name] for symbol, name in names.items()}
    return sizes | {
        "attention_dropout": options.get("attention_dropout") or 0.0,
        "attention_window": options.get("attention_window"),
    }


def sharing_of(options: Mapping[str, object]) -> str:
    """Return which embeddings are one matrix, as nn/transformer.py calls it."""
    return next((kind for name, kind in SHARING.items() if options.get(name) is True), "all")


def kept_options(options: Mapping[str, object]) -> dict[str, object]:
    """Return the options that a folder keeps: all that are plain data and no place."""
    return {
        name: value
        for name, value in options.items()
        if name not in PLACES and isinstance(value, str | int | float | bool | list | None)
    }


def write_model(transformer: Transformer, options: Mapping[str, object], path: Path) -> None:
    """Write a checkpoint with which fairseq-generate and --finetune-from-model work; raises OSError
    as `write_checkpoint` does."""
    own = dict(transformer.named_parameters(remove_duplicate=False))
    args = Namespace()
    vars(args).update(options)
    state = {
        "args": args,
        "model": OrderedDict((_long(name), tensor.detach()) for name, tensor in own.items()),
        "optimizer_history": [
            {
                "criterion_name": "",
                "optimizer_name": "",
                "lr_scheduler_state": {},
                "num_updates": 0,
            }
        ],
        "extra_state": {"train_iterator": {"epoch": 1}},
    }
    write_checkpoint(state, path)


def _short(name: str) -> str:
    """encoder.stack.layers.0... → encoder.layers.0..."""
    return name.replace(".stack.", ".", 1)


def _long(name: str) -> str:
    side, _, rest = name.partition(".")
    return f"{side}.stack.{rest}"

"""Refuse checkpoints that need more memory than the size of their file.

A file of a few KB can declare a tensor's shape and a configuration's sizes as large as it likes,
and both are used unchecked: a copy of a tensor has as many elements as its shape says, and fairseq
builds the model that the configuration declares.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fairseq_aiayn.checkpoints.contents import CONFIGURATIONS, leaves, parts

# Suffixes of fairseq's names for the sizes of a model
SIZES = ("_layers", "_dim", "_heads", "d_k", "d_v")


def require_tensors_of_the_file(path: Path, state: Mapping[str, Any]) -> None:
    """Raise ValueError, with the path, unless all tensors of a checkpoint fit into its file.

    A tensor with a stride of 0 repeats its numbers and can have more elements than the file has
    bytes. A tensor with two names (tied embeddings) counts once.
    """
    found = list(tensors(state))
    for tensor in found:
        if not is_plain(tensor):
            raise ValueError(
                f"{path}: its tensors must be plain numbers, one is a {type(tensor).__name__} of"
                f" {tensor.layout} on {tensor.device}"
            )
    size = path.stat().st_size
    needed = sum(one.numel() * one.element_size() for one in distinct(found))
    if needed > size:
        raise ValueError(
            f"{path}: its tensors must fit into the file of {size:,} bytes, their shapes ask for"
            f" {needed:,}"
        )


def tensors(value: Any) -> Iterator[Tensor]:
    """Yield every tensor in nested dicts and lists, once per reference to it."""
    waiting, seen = [value], set()
    while waiting:
        value = waiting.pop()
        if isinstance(value, Tensor):
            yield value
        elif id(value) not in seen:
            seen.add(id(value))
            waiting.extend(part for _, part in parts(value))


def is_plain(tensor: Tensor) -> bool:
    """Return whether a tensor is a dense array of plain numbers in CPU memory."""
    kind = type(tensor) in (Tensor, torch.nn.Parameter) and tensor.device.type == "cpu"
    odd = tensor.is_quantized or tensor.is_nested or tensor.layout != torch.strided
    return kind and not odd


def distinct(found: Iterable[Tensor]) -> Iterable[Tensor]:
    """Return each tensor once, however many names it has."""
    return {identity(one): one for one in found}.values()


def identity(tensor: Tensor) -> tuple:
    """Return a key that is the same for all names of a tensor and differs between nonempty ones."""
    return tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), tensor.dtype


def require_declared_sizes(path: Path, state: Mapping[str, Any]) -> None:
    """Raise ValueError, with the path, if a configuration's layers have more parameters than the
    file.

    This counts the matrices of attention and feed-forward, which fairseq's Transformer and the
    paper's both have; so this module needs no list of a model's other parameters. The rest, an
    embedding of the user's dictionary, cannot be wider than these matrices allow.
    """
    held = sum(one.numel() for one in distinct(state["model"].values()))
    for key in CONFIGURATIONS:
        sizes = declared_sizes(path, key, state, held)
        for side in ("encoder", "decoder"):
            needed = layer_parameters(side, sizes)
            if needed > held:
                raise ValueError(
                    f"{path}: the layers of its {side} must be among its {held:,} parameters, the"
                    f" configuration declares {needed:,} for them"
                )


def declared_sizes(path: Path, key: str, state: Mapping[str, Any], most: int) -> dict[str, int]:
    """Return the sizes in the model's part of a configuration, by fairseq's names (encoder_layers).

    Raises ValueError for a size that is not a whole number of at most `most`.
    """
    configuration = state.get(key)
    model = dict(parts(configuration)).get("model") if key == "cfg" else configuration
    sizes: dict[str, int] = {}
    for names, size in leaves(path, model):
        name = "_".join(map(str, names))  # encoder.layers is another spelling of encoder_layers
        if size is None or not name.endswith(SIZES):
            continue
        if not isinstance(size, int) or not 0 <= size <= most:
            raise ValueError(
                f"{path}: {name[:60]} must be a whole number of at most the {most:,} parameters of"
                f" its model, is {str(size)[:60]!r}"
            )
        sizes[name] = max(size, sizes.get(name, 0))
    return sizes


def layer_parameters(side: str, sizes: Mapping[str, int]) -> int:
    """Count the weights of W^Q, W^K, W^V, W^O, W_1 and W_2 in the layers of one side."""
    N, d_model, d_ff, h = (
        sizes.get(f"{side}_{name}", 0)
        for name in ("layers", "embed_dim", "ffn_embed_dim", "attention_heads")
    )
    # fairseq's own Transformer has d_k = d_v = d_model / h.
    own = "d_k" in sizes and "d_v" in sizes
    attention = h * (sizes["d_k"] + sizes["d_v"]) if own else 2 * d_model
    return 2 * N * d_model * (attention + d_ff)

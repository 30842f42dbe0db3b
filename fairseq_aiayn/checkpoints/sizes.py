"""How much memory a checkpoint may make its reader take: no more than what is in the file.

A tensor's shape and a configuration's sizes are numbers that a file of a few KB can choose as it
likes, and both are believed before anything else is looked at: a copy of a tensor has as many
numbers as its shape says, and fairseq builds the model that the configuration declares.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fairseq_aiayn.checkpoints.contents import CONFIGURATIONS, leaves, parts

# Endings of fairseq's names for the sizes of a model
SIZES = ("_layers", "_dim", "_heads", "d_k", "d_v")


def require_tensors_of_the_file(path: Path, state: Mapping[str, Any]) -> None:
    """Raise ValueError, naming path, unless all tensors of a checkpoint fit into its file.

    A tensor with strides of 0 repeats its numbers, and can have more elements than the file has
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
    """Yield every tensor within dicts and lists, once for each that refers to it."""
    waiting, seen = [value], set()
    while waiting:
        value = waiting.pop()
        if isinstance(value, Tensor):
            yield value
        elif id(value) not in seen:
            seen.add(id(value))
            waiting.extend(part for _, part in parts(value))


def is_plain(tensor: Tensor) -> bool:
    """Whether a tensor has its numbers in memory of its own, one after the other."""
    kind = type(tensor) in (Tensor, torch.nn.Parameter) and tensor.device.type == "cpu"
    odd = tensor.is_quantized or tensor.is_nested or tensor.layout != torch.strided
    return kind and not odd


def distinct(found: Iterable[Tensor]) -> Iterable[Tensor]:
    """Leave out tensors that are another under a second name."""
    return {identity(one): one for one in found}.values()


def identity(tensor: Tensor) -> tuple:
    """What is the same for all names of one tensor, and differs between tensors with elements."""
    return tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), tensor.dtype


def require_declared_sizes(path: Path, state: Mapping[str, Any]) -> None:
    """Raise ValueError, naming path, for a configuration whose layers have more parameters than the
    file.

    Counted are the matrices of attention and feed-forward, which every Transformer has, fairseq's
    as well as the paper's; there is no second list of what a model consists of. What is left, an
    embedding of the user's dictionary, is no wider than these allow.
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
    """The sizes in the model's part of a configuration, by fairseq's names (encoder_layers).

    Raises ValueError for one that is not a whole number of at most `most`.
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
    """The weights of W^Q, W^K, W^V, W^O, W_1 and W_2 in all layers of "encoder" or "decoder"."""
    N, d_model, d_ff, h = (
        sizes.get(f"{side}_{name}", 0)
        for name in ("layers", "embed_dim", "ffn_embed_dim", "attention_heads")
    )
    # fairseq's own has d_k = d_v = d_model / h
    own = "d_k" in sizes and "d_v" in sizes
    attention = h * (sizes["d_k"] + sizes["d_v"]) if own else 2 * d_model
    return 2 * N * d_model * (attention + d_ff)

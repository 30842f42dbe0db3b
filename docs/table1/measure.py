"""Measure Table 1: what self-attention, recurrent and convolutional layers cost.

Run one layer of each kind, [1, n, d] → [1, n, d], over several lengths n and widths d on one
thread. Count its FLOPs, time it, add up the memory of its tensors, fit the exponents of n and d
between the two largest sizes, and find the longest path. Print the rows of the table and write all
figures into a file, in about a minute: python docs/table1/measure.py docs/table1/table1.json
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import pad
from torch.nn.functional import scaled_dot_product_attention as fused_attention
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from fairseq_aiayn.nn.attention import SelfAttention, attention
from fairseq_aiayn.nn.dimensions import Dimensions

LENGTHS, WIDTHS, PATHS = (128, 256, 512, 1024, 2048), (256, 512, 1024), (33, 81)
SECONDS, TIMES = 0.2, 3  # a layer is timed for at least these seconds and runs
h, k, r = 8, 3, 32  # heads, as in base; width of a convolution; neighbourhood on either side


def restricted_attention(Q: Tensor, K: Tensor, V: Tensor, r: int) -> Tensor:
    """Attend from every position to those at most r away (section 4), in O(n·r·d): positions are
    cut into blocks of r, and a block sees itself and the blocks on either side.

    Q, K and V [1, h, n, d_k] → [1, h, n, d_k].
    """
    n = Q.size(2)
    blocks = -(-n // r)
    filled = blocks * r - n

    def cut(x: Tensor, around: int) -> Tensor:  # → [blocks, h, r + 2·around, d_k]
        windows = pad(x, (0, 0, around, filled + around)).unfold(2, r + 2 * around, r)
        return windows[0].permute(1, 0, 3, 2)

    query, key = torch.arange(r)[:, None], torch.arange(-r, 2 * r)  # places relative to a block
    position = torch.arange(blocks)[:, None, None] * r + key  # [blocks, 1, 3·r]
    exists = (position >= 0) & (position < n)
    legal = ((query - key).abs() <= r) & (exists | (query == key))  # what fills up sees itself
    heads = fused_attention(cut(Q, 0), cut(K, r), cut(V, r), legal[:, None])
    return heads.transpose(0, 1).flatten(1, 2)[None, :, :n]


class Layer(nn.Module):
    """A module with parameters, and the function that runs it over x [1, n, d]."""

    def __init__(self, module: nn.Module, run: Callable[[Any, Tensor], Tensor]):
        super().__init__()
        self.module, self.run = module, run

    def forward(self, x: Tensor) -> Tensor:
        """x [1, n, d] → [1, n, d]."""
        return self.run(self.module, x)


def self_attention(d: int, attend: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Layer:
    """Return multi-head self-attention that computes its heads by `attend`."""

    def run(module: SelfAttention, x: Tensor) -> Tensor:
        return module.W_O(attend(*module.queries_keys_values(x)).transpose(1, 2).flatten(2))

    return Layer(SelfAttention(Dimensions(1, d, d, h, d // h, d // h, P_drop=0.0)), run)


def recurrent(d: int) -> Layer:
    """Return an LSTM from left to right."""
    return Layer(nn.LSTM(d, d, batch_first=True), lambda module, x: module(x)[0])


def convolution(d: int, apart: int = 1) -> Layer:
    """Return a convolution over a position and the k − 1 before it, which may be further apart."""

    def run(module: nn.Conv1d, x: Tensor) -> Tensor:
        return module(pad(x.transpose(1, 2), (apart * (k - 1), 0))).transpose(1, 2)

    return Layer(nn.Conv1d(d, d, k, dilation=apart), run)


# What the paper prints of a kind: complexity, operations that wait for each other, longest path
PRINTED = {
    "self-attention": ("O(n²·d)", "O(1)", "O(1)"),
    "the same, Equation 1 as written": ("O(n²·d)", "O(1)", "O(1)"),
    "recurrent (LSTM)": ("O(n·d²)", "O(n)", "O(n)"),
    f"convolutional, k = {k}": ("O(k·n·d²)", "O(1)", "O(n/k)"),
    f"convolutional, dilated, k = {k}": ("O(k·n·d²)", "O(1)", "O(log_k(n))"),
    f"self-attention (restricted, r = {r})": ("O(r·n·d)", "O(1)", "O(n/r)"),
}
# Makes the layer of a width at an index of a stack
BUILDERS: tuple[Callable[[int, int], Layer], ...] = (
    lambda d, _: self_attention(d, fused_attention),
    lambda d, _: self_attention(d, attention),
    lambda d, _: recurrent(d),
    lambda d, _: convolution(d),
    lambda d, index: convolution(d, k**index),
    lambda d, _: self_attention(d, partial(restricted_attention, r=r)),
)


def path_length(build: Callable[[int, int], Layer], n: int) -> int:
    """Return the smallest number of layers at which ∂y_n/∂x_1 is not zero, which is exact; of a
    recurrent layer the n steps that it takes inside one."""
    torch.manual_seed(0)
    x = torch.randn(1, n, h, dtype=torch.float64, requires_grad=True)
    for depth in range(1, n + 1):
        layers = [build(h, index) for index in range(depth)]
        (gradient,) = torch.autograd.grad(nn.Sequential(*layers).double()(x)[0, -1].sum(), x)
        if gradient[0, 0].any():
            return n if isinstance(layers[0].module, nn.LSTM) else depth
    raise ValueError(f"nothing of position 1 reaches position {n}")


class PeakMemory(TorchDispatchMode):
    """Adds up the bytes of all tensors that are alive after each operation, but a layer's
    parameters. What a kernel takes for itself while it runs is not seen."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.peak = 0
        self.parameters = {weight.untyped_storage()._cdata for weight in layer.parameters()}
        self.alive: dict[int, tuple[StorageWeakRef, int]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        outputs = func(*args, **(kwargs or {}))
        for tensor in tree_leaves((args, outputs)):
            if isinstance(tensor, Tensor):
                storage = tensor.untyped_storage()
                if storage._cdata not in self.parameters:
                    self.alive[storage._cdata] = (StorageWeakRef(storage), storage.nbytes())
        self.alive = {key: kept for key, kept in self.alive.items() if not kept[0].expired()}
        self.peak = max(self.peak, sum(size for _, size in self.alive.values()))
        return outputs


@torch.no_grad()
def measure(layer: nn.Module, n: int, d: int) -> dict[str, float]:
    """Return FLOPs, two per multiply-add, seconds (median) and peak bytes of one forward pass."""
    x = torch.randn(1, n, d)
    layer(x)  # the first product of a process has a trial before it
    with PeakMemory(layer) as memory:
        layer(x)
    seconds: list[float] = []
    while len(seconds) < TIMES or sum(seconds) < SECONDS:
        start = time.perf_counter()
        layer(x)
        seconds.append(time.perf_counter() - start)
    torch._C._set_mkldnn_enabled(False)  # the counter knows neither oneDNN's LSTM nor a fused one
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        layer(x)
    torch._C._set_mkldnn_enabled(True)
    flops = counter.get_total_flops()
    return {"flops": flops, "seconds": median(seconds), "peak_bytes": memory.peak}


def exponent(costs: Mapping[int, Mapping[str, float]], name: str) -> float:
    """Return p of the curve size^p through the costs of a name at the two largest sizes."""
    (small, first), (large, second) = sorted(costs.items())[-2:]
    return math.log(second[name] / first[name]) / math.log(large / small)


def as_row(printed: tuple[str, str, str], result: Mapping[str, dict]) -> list[str]:
    """Return a row's printed complexity, measured exponents of n and of d, steps and paths."""
    grown = [
        f"{exponent(result['by length'], name):.2f}, {exponent(result['by width'], name):.2f}"
        for name in ("flops", "seconds", "peak_bytes")
    ]
    paths = [f"{steps} ({printed[2]})" for steps in result["longest path"].values()]
    return [printed[0], *grown, printed[1], *paths]


if __name__ == "__main__":
    torch.set_num_threads(1)
    results = {
        name: {
            "printed": printed[0],
            "by length": {n: measure(build(WIDTHS[0], 0), n, WIDTHS[0]) for n in LENGTHS},
            "by width": {d: measure(build(d, 0), LENGTHS[-1], d) for d in WIDTHS},
            "longest path": {n: path_length(build, n) for n in PATHS},
        }
        for (name, printed), build in zip(PRINTED.items(), BUILDERS, strict=True)
    }
    for name, printed in PRINTED.items():
        print(f"| {' | '.join([name, *as_row(printed, results[name])])} |")
    Path(sys.argv[1]).write_text(json.dumps(results, indent=2), encoding="utf-8")

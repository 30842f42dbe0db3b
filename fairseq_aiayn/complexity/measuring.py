"""FLOPs, time and memory of a layer, and how they grow."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

SECONDS = 0.2  # that a layer is timed for at least
TIMES = 3  # that it runs at least


@dataclass(frozen=True)
class Cost:
    """What one forward pass of a layer takes."""

    flops: int  # of its products, two per multiply-add
    seconds: float  # median
    peak_bytes: int  # of the tensors that it makes, and its input


class PeakMemory(TorchDispatchMode):
    """Adds up the memory of all tensors that are alive after each operation, without a layer's
    parameters and views of them.

    What a kernel takes for itself while it runs is not seen.
    """

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.peak = 0
        self._parameters = {one.untyped_storage()._cdata for one in layer.parameters()}
        self._alive: dict[int, tuple[StorageWeakRef, int]] = {}

    def __torch_dispatch__(
        self, func: Callable, types: Any, args: tuple = (), kwargs: Mapping | None = None
    ) -> Any:
        """Run an operation and look at its outputs."""
        outputs = func(*args, **(kwargs or {}))
        for tensor in tree_leaves((args, outputs)):
            if not isinstance(tensor, Tensor):
                continue
            storage = tensor.untyped_storage()
            if storage._cdata not in self._parameters:
                self._alive[storage._cdata] = (StorageWeakRef(storage), storage.nbytes())
        self._alive = {key: one for key, one in self._alive.items() if not one[0].expired()}
        self.peak = max(self.peak, sum(size for _, size in self._alive.values()))
        return outputs


@torch.no_grad()
def measure(layer: nn.Module, n: int, d: int) -> Cost:
    """Run a layer over [1, n, d] on this machine."""
    x = torch.randn(1, n, d)
    flops = _count(layer, x)
    with PeakMemory(layer) as memory:
        layer(x)
    seconds: list[float] = []
    while len(seconds) < TIMES or sum(seconds) < SECONDS:
        start = time.perf_counter()
        layer(x)
        seconds.append(time.perf_counter() - start)
    return Cost(flops, median(seconds), memory.peak)


def _count(layer: nn.Module, x: Tensor) -> int:
    """Return the FLOPs of a layer's products, with the kernels that PyTorch's counter knows:
    neither a fused attention nor oneDNN's LSTM is among them."""
    onednn = torch.backends.mkldnn.enabled
    torch._C._set_mkldnn_enabled(False)
    try:
        with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
            layer(x)
    finally:
        torch._C._set_mkldnn_enabled(onednn)
    return counter.get_total_flops()


def exponent(values: Mapping[int, float]) -> float:
    """Return p of the curve size^p through the values at the two largest sizes."""
    (small, first), (large, second) = sorted(values.items())[-2:]
    return math.log(second / first) / math.log(large / small)

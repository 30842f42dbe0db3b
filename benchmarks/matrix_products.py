"""The matrix products of an update alone: of the same shapes and types, in the same order, with
nothing between them: an update cannot be faster. And the speed of a CPU's libraries of products."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from fairseq_aiayn.nn.products import onednn_product, seconds

# Of base with 2,048 tokens: rows of x, its columns, rows of W, in attention's projections and the
# feed-forward network
SHAPES, ROUNDS = ((2_048, 512, 512), (2_048, 512, 2_048), (2_048, 2_048, 512)), 15
ALONE = ("mm", "addmm", "bmm", "baddbmm", "_linear_pointwise")
ATTENTION = "_scaled_dot_product_"  # kernels, which compute a softmax between two products


class Like(NamedTuple):
    """What a product's time depends on of a tensor."""

    size: torch.Size
    stride: tuple[int, ...]
    dtype: torch.dtype

    def ones(self, device: str) -> Tensor:
        """Return such a tensor."""
        last = sum((n - 1) * step for n, step in zip(self.size, self.stride, strict=True))
        return torch.ones(last + 1, dtype=self.dtype, device=device).as_strided(*self[:2])


class Products(TorchDispatchMode):
    """Records the products that are computed while it is on."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Callable, list, dict]] = []  # an operation and its arguments

    def __torch_dispatch__(self, operation, types, arguments=(), options=None):
        name = operation.overloadpacket.__name__
        if name in ALONE or name.startswith(ATTENTION):
            likes = [
                Like(x.size(), x.stride(), x.dtype) if isinstance(x, Tensor) else x
                for x in arguments
            ]
            self.calls.append((operation, likes, options or {}))
        return operation(*arguments, **(options or {}))

    def made(self, device: str) -> list[Callable[[], object]]:
        """Return them, of tensors of which there is one of each kind."""
        ones = cache(lambda like: like.ones(device))
        return [
            partial(call, *(ones(x) if isinstance(x, Like) else x for x in given), **more)
            for call, given, more in self.calls
        ]


def gflops_of_libraries(n: int, k: int, m: int) -> dict[str, list[float]]:
    """Return how many GFLOP/s MKL and oneDNN reach on this CPU in xWᵀ, x [n, k] and W [m, k], in
    each round, in which they take turns."""
    x, W = torch.ones(n, k), torch.ones(m, k)
    ways = {"MKL": lambda: x @ W.T, "oneDNN": lambda: onednn_product(x, W)}
    with torch.no_grad():
        times = [[seconds(way) for way in ways.values()] for _ in range(ROUNDS + 1)][1:]
    rates = ([2e-9 * n * k * m / one for one in way] for way in zip(*times, strict=True))
    return dict(zip(ways, rates, strict=True))

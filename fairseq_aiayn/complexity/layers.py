"""The kinds of layers in Table 1, with what the paper prints of them.

Every layer maps [1, n, d] to [1, n, d].
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from fairseq_aiayn.nn.attention import MultiHeadAttention, RestrictedSelfAttention, attention
from fairseq_aiayn.nn.layers import Dimensions

HEADS = 8  # as in base
KERNEL = 3  # k, the width of a convolution
WINDOW = 32  # r


class SelfAttention(nn.Module):
    """Multi-head self-attention, fused, restricted to a window, or Equation 1 as it is written."""

    def __init__(self, module: MultiHeadAttention, as_written: bool = False):
        super().__init__()
        self.module, self.as_written = module, as_written

    def forward(self, x: Tensor) -> Tensor:
        """x [1, n, d] → [1, n, d]."""
        if not self.as_written:
            return self.module(x, x)
        return self.module.join(attention(*self.module.queries_keys_values(x)))


class Recurrent(nn.Module):
    """An LSTM from left to right."""

    def __init__(self, d: int):
        super().__init__()
        self.module = nn.LSTM(d, d, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        """x [1, n, d] → [1, n, d]."""
        return self.module(x)[0]


class Convolution(nn.Module):
    """A convolution over a position and the k - 1 before it, or over positions further apart."""

    def __init__(self, d: int, apart: int = 1):
        super().__init__()
        self.before = apart * (KERNEL - 1)
        self.module = nn.Conv1d(d, d, KERNEL, dilation=apart)

    def forward(self, x: Tensor) -> Tensor:
        """x [1, n, d] → [1, n, d]."""
        return self.module(pad(x.transpose(1, 2), (self.before, 0))).transpose(1, 2)


@dataclass(frozen=True)
class LayerKind:
    """A row of Table 1, or two where there are two ways to compute one.

    build(d, index) makes the layer at place `index` of a stack, counted from 0. The exponents are
    those of the printed complexity in n and in d.
    """

    name: str
    complexity: str
    sequential: str  # operations
    path: str  # longest, between two positions
    exponents: tuple[float, float]
    build: Callable[[int, int], nn.Module]


def dimensions(d: int, window: int | None = None) -> Dimensions:
    """Return the dimensions of one attention of width d; raises ValueError unless h divides d."""
    if d % HEADS:
        raise ValueError(f"the width d must be a multiple of {HEADS} heads, got {d}")
    size = d // HEADS
    return Dimensions(1, d, d, HEADS, size, size, P_drop=0.0, attention_window=window)


def _whole(d: int, index: int) -> nn.Module:
    return SelfAttention(MultiHeadAttention(dimensions(d)))


def _as_written(d: int, index: int) -> nn.Module:
    return SelfAttention(MultiHeadAttention(dimensions(d)), as_written=True)


def _restricted(d: int, index: int) -> nn.Module:
    return SelfAttention(RestrictedSelfAttention(dimensions(d, WINDOW)))


KINDS = (
    LayerKind("self-attention", "O(n²·d)", "O(1)", "O(1)", (2, 1), _whole),
    LayerKind("the same, Equation 1 as written", "O(n²·d)", "O(1)", "O(1)", (2, 1), _as_written),
    LayerKind("recurrent (LSTM)", "O(n·d²)", "O(n)", "O(n)", (1, 2), lambda d, _: Recurrent(d)),
    LayerKind(
        f"convolutional, k = {KERNEL}",
        "O(k·n·d²)",
        "O(1)",
        "O(n/k)",
        (1, 2),
        lambda d, _: Convolution(d),
    ),
    LayerKind(
        f"convolutional, dilated, k = {KERNEL}",
        "O(k·n·d²)",
        "O(1)",
        "O(log_k(n))",
        (1, 2),
        lambda d, index: Convolution(d, KERNEL**index),
    ),
    LayerKind(
        f"self-attention (restricted, r = {WINDOW})",
        "O(r·n·d)",
        "O(1)",
        "O(n/r)",
        (1, 1),
        _restricted,
    ),
)


def path_length(kind: LayerKind, n: int) -> int:
    """Return the steps from position 1 to position n: the smallest number of layers at which
    ∂y_n/∂x_1 is not zero; of a recurrent layer the n steps that it takes inside one.

    Gradients that are not zero are exact in this sense: what does not reach has gradient 0.
    """
    torch.manual_seed(0)
    d = HEADS
    x = torch.randn(1, n, d, dtype=torch.float64)
    for depth in range(1, n + 1):
        stack = nn.Sequential(*(kind.build(d, index) for index in range(depth))).double()
        own = x.clone().requires_grad_()
        stack(own)[0, -1].sum().backward()
        if own.grad[0, 0].any():
            return depth * (n if isinstance(stack[0], Recurrent) else 1)
    raise ValueError(f"{kind.name}: nothing of position 1 reaches position {n} in {n} layers")

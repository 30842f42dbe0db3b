"""Section 5.4: residual dropout, with rate P_drop on every sub-layer's output and on the embedded
input."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Dropout(nn.Module):
    """`dropout` with rate p during training; no effect otherwise."""

    def __init__(self, p: float):
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """x of any shape → same shape and type."""
        return dropout(x, self.p) if self.training else x


def dropout(x: Tensor, p: float) -> Tensor:
    """Set each element to 0 with probability p and divide the others by 1 − p.

    x of any shape → same shape and type.
    """
    if p == 0.0:
        return x
    if not x.is_cpu:
        return F.dropout(x, p)
    # On a CPU, F.dropout draws element by element, which takes a tenth of a small model's step, and
    # it keeps a mask as large as x for the backward pass.
    return x * drawn(x.shape, p) / (1.0 - p)


def drawn(shape: torch.Size, p: float) -> Tensor:
    """Draw which elements are kept: a bool tensor of this shape, False with probability p.

    Two elements share a draw of 64 random bits, 32 for each, so p is exact to 2^−32.
    """
    n = shape.numel()
    bits = torch.empty((n + 1) // 2, dtype=torch.int64).random_(-(2**63), None)
    return bits.view(torch.int32)[:n].view(shape) >= round(p * 2**32) - 2**31

"""Section 5.4: residual dropout, P_drop of every sub-layer's output and of the embedded input."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Dropout(nn.Module):
    """While training, each element is 0 with probability p, else divided by 1 − p."""

    def __init__(self, p: float):
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """x of any shape → the same shape and type."""
        if not self.training or self.p == 0.0:
            return x
        if not x.is_cpu:
            return F.dropout(x, self.p)
        # On a CPU that function draws element by element, which takes a tenth of a small model's
        # step, and keeps a mask as large as x for the backward pass.
        return x * drawn(x.shape, self.p) / (1.0 - self.p)


def drawn(shape: torch.Size, p: float) -> Tensor:
    """Draw for every element whether it is kept: bool of this shape, False with probability p.

    Two elements share a draw of 64 random bits, which meets p to 2^−32.
    """
    n = shape.numel()
    bits = torch.empty((n + 1) // 2, dtype=torch.int64).random_(-(2**63), None)
    return bits.view(torch.int32)[:n].view(shape) >= round(p * 2**32) - 2**31

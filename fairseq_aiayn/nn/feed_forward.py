"""Section 3.3: the position-wise feed-forward network."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn


class FeedForward(nn.Module):
    """Equation 2: FFN(x) = max(0, xW_1 + b_1)W_2 + b_2."""

    def __init__(self, d_model: int, d_ff: int):
        super().__init__()
        self.W_1 = nn.Linear(d_model, d_ff)
        self.W_2 = nn.Linear(d_ff, d_model)

    def forward(self, x: Tensor) -> Tensor:
        """x [B, L, d_model] → [B, L, d_model]."""
        return self.W_2(F.relu(self.W_1(x)))

"""Sections 3.1 and 5.4: the residual connection around every sub-layer."""

from __future__ import annotations

from torch import Tensor, nn

from fairseq_aiayn.nn.dropout import Dropout

LAYER_NORM_EPSILON = 1e-6  # not stated; as in the paper's own code


class AddAndNorm(nn.Module):
    """LayerNorm(x + Dropout(Sublayer(x))): dropout first, then the sum, then the layer norm."""

    def __init__(self, d_model: int, P_drop: float):
        super().__init__()
        self.dropout = Dropout(P_drop)
        self.norm = nn.LayerNorm(d_model, eps=LAYER_NORM_EPSILON)

    def forward(self, x: Tensor, sublayer_of_x: Tensor) -> Tensor:
        """x and Sublayer(x), both [B, L, d_model] → [B, L, d_model]."""
        return self.norm(x + self.dropout(sublayer_of_x))

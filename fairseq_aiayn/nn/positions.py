"""Section 3.5: positional encodings, sinusoidal or learned (Table 3, row E)."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def positions(tokens: Tensor, padding: int) -> Tensor:
    """Return the position of every token, 0 at the first real one; padding may be on either side.

    tokens [B, L] → [B, L]; padding gets the position of a neighbour, which is never used.
    """
    return (tokens.ne(padding).cumsum(dim=1) - 1).clamp(min=0)


def sinusoids(length: int, d_model: int) -> Tensor:
    """Return PE(pos, 2i) = sin(pos/10000^{2i/d_model}) and PE(pos, 2i+1) =
    cos(pos/10000^{2i/d_model}), interleaved: [length, d_model] float32.

    The angles are computed in float64, because at position 10,000 a float32 angle is already wrong
    in the fourth digit.
    """
    pos = torch.arange(length, dtype=torch.float64)
    two_i = torch.arange(0, d_model, 2, dtype=torch.float64)
    angles = torch.outer(pos, 10000.0 ** (-two_i / d_model))  # [length, d_model/2]
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1).float()


class SinusoidalPositions(nn.Module):
    """Sinusoids for any length; the table grows when needed and is not saved with the model."""

    def __init__(self, d_model: int):
        super().__init__()
        if d_model % 2:
            raise ValueError(f"d_model must be even, sine and cosine come in pairs; got {d_model}")
        self.d_model = d_model
        self.register_buffer("table", torch.empty(0, d_model), persistent=False)

    def forward(self, pos: Tensor, longest: int) -> Tensor:
        """pos [B, L] or [L], every value below `longest` → encodings [..., d_model]."""
        if longest > self.table.size(0):
            self.table = sinusoids(2 * longest, self.d_model).to(self.table)
        return self.table[pos]


class LearnedPositions(nn.Module):
    """A learned embedding of each position below `max_length` (Table 3, row E); raises ValueError
    for a longer sequence."""

    def __init__(self, d_model: int, max_length: int):
        super().__init__()
        self.weight = nn.Parameter(
            nn.init.normal_(torch.empty(max_length, d_model), std=d_model**-0.5)
        )

    def forward(self, pos: Tensor, longest: int) -> Tensor:
        """pos [B, L] or [L], every value below `longest` → encodings [..., d_model]."""
        if longest > self.weight.size(0):
            raise ValueError(
                f"learned positions end at length {self.weight.size(0)}, got a sequence of "
                f"{longest} tokens"
            )
        return self.weight[pos]

"""The parts of a layer in the paper's order: residual connection and norm (sections 3.1 and 5.4),
feed-forward network (3.3), embeddings (3.4) and positions (3.5)."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_aiayn.nn.cpu_kernels import dropout, linear
from fairseq_aiayn.nn.dimensions import LONGEST_SINUSOIDS

__all__ = [
    "LearnedPositions",
    "SinusoidalPositions",
    "positions",
    "sinusoids",
]

LAYER_NORM_EPSILON = 1e-6  # not stated; as in the paper's own code


class Linear(nn.Linear):
    """The map xWᵀ + b, or xWᵀ; then there is no parameter b, not even one that is None, which
    trainers take for shared."""

    def __init__(self, k: int, n: int, bias: bool = True):
        super().__init__(k, n, bias)
        if not bias:
            del self.bias
            self.__dict__["bias"] = None

    def forward(self, x: Tensor) -> Tensor:
        """x [..., k] → [..., n]."""
        return linear(x, self.weight, self.bias)


class Dropout(nn.Module):
    """Section 5.4: `dropout` with rate p during training; no effect otherwise."""

    def __init__(self, p: float):
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """x of any shape → same shape and type."""
        return dropout(x, self.p) if self.training else x


class AddAndNorm(nn.Module):
    """LayerNorm(x + Dropout(Sublayer(x))): dropout first, then the sum, then the layer norm."""

    def __init__(self, d_model: int, P_drop: float):
        super().__init__()
        self.dropout = Dropout(P_drop)
        self.norm = nn.LayerNorm(d_model, eps=LAYER_NORM_EPSILON)

    def forward(self, x: Tensor, sublayer_of_x: Tensor) -> Tensor:
        """x and Sublayer(x), both [B, L, d_model] → [B, L, d_model]."""
        return self.norm(x + self.dropout(sublayer_of_x))


class FeedForward(nn.Module):
    """Equation 2: FFN(x) = max(0, xW_1 + b_1)W_2 + b_2."""

    def __init__(self, d_model: int, d_ff: int):
        super().__init__()
        self.W_1 = Linear(d_model, d_ff)
        self.W_2 = Linear(d_ff, d_model)

    def forward(self, x: Tensor) -> Tensor:
        """x [B, L, d_model] → [B, L, d_model]."""
        return self.W_2(F.relu(self.W_1(x)))


class Embedding(nn.Module):
    """A matrix E ∈ R^{V × d_model} that embeds tokens, scaled by √d_model, and projects to logits.

    To share the matrix as in section 3.4, use one instance in several places.
    """

    def __init__(self, V: int, d_model: int):
        super().__init__()
        self.scale = math.sqrt(d_model)
        self.weight = nn.Parameter(nn.init.normal_(torch.empty(V, d_model), std=d_model**-0.5))

    def forward(self, tokens: Tensor) -> Tensor:
        """tokens [B, L] → √d_model · E[tokens], [B, L, d_model]."""
        return F.embedding(tokens, self.weight) * self.scale

    def project(self, x: Tensor) -> Tensor:
        """x [B, L, d_model] → logits xEᵀ, [B, L, V]."""
        return linear(x, self.weight)


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


class Positions(nn.Module):
    """A vector for each position below a maximum length: `weight` [max_length, d_model]."""

    weight: Tensor

    def forward(self, pos: Tensor, length: int) -> Tensor:
        """pos [B, L] or [L], every value below `length` → encodings [..., d_model]; raises
        ValueError for a sequence that is too long."""
        if length > self.weight.size(0):
            raise ValueError(
                f"positions end at length {self.weight.size(0)}, got a sequence of {length} tokens"
            )
        return self.weight[pos]


class SinusoidalPositions(Positions):
    """Sinusoids, which are not saved with the model."""

    def __init__(self, d_model: int, max_length: int = LONGEST_SINUSOIDS):
        super().__init__()
        if d_model % 2:
            raise ValueError(f"d_model must be even, sine and cosine come in pairs; got {d_model}")
        self.register_buffer("weight", sinusoids(max_length, d_model), persistent=False)


class LearnedPositions(Positions):
    """A learned embedding of each position (Table 3, row E)."""

    def __init__(self, d_model: int, max_length: int):
        super().__init__()
        self.weight = nn.Parameter(
            nn.init.normal_(torch.empty(max_length, d_model), std=d_model**-0.5)
        )

"""The sizes and rates of a Transformer, in the symbols of Table 3."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_aiayn.nn.cpu_kernels import Dropout, vocabulary_product

LARGEST_N = 1000  # far beyond any Transformer; a huge N builds layers for hours, until memory ends


@dataclass(frozen=True)
class Dimensions:
    """The dimensions of the two layer stacks; raises ValueError for a value that no Transformer can
    have."""

    N: int
    d_model: int
    d_ff: int
    h: int
    d_k: int
    d_v: int
    P_drop: float
    attention_dropout: float = 0.0
    attention_window: int | None = None  # r of section 4; None = every position, as in the paper

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is None and field.name == "attention_window":
                continue
            if field.name in ("P_drop", "attention_dropout"):
                if not 0.0 <= value < 1.0:
                    raise ValueError(f"{field.name} must be in [0, 1), got {value}")
            elif value < 1:
                raise ValueError(f"{field.name} must be at least 1, got {value}")
        if self.N > LARGEST_N:
            raise ValueError(f"N must be at most {LARGEST_N}, got {self.N}")


# Sections 3.1 and 5.4: the residual connection around every sub-layer.


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


# Section 3.3: the position-wise feed-forward network.


class FeedForward(nn.Module):
    """Equation 2: FFN(x) = max(0, xW_1 + b_1)W_2 + b_2."""

    def __init__(self, d_model: int, d_ff: int):
        super().__init__()
        self.W_1 = nn.Linear(d_model, d_ff)
        self.W_2 = nn.Linear(d_ff, d_model)

    def forward(self, x: Tensor) -> Tensor:
        """x [B, L, d_model] → [B, L, d_model]."""
        return self.W_2(F.relu(self.W_1(x)))


# Section 3.4: the embeddings, and the pre-softmax projection that may share their matrix.


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
        return vocabulary_product(x, self.weight)


# Section 3.5: positional encodings, sinusoidal or learned (Table 3, row E).


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

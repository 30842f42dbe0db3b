"""Section 3.4: the embeddings, and the pre-softmax projection that may share their matrix."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_aiayn.nn.product import vocabulary_product


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

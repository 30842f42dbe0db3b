"""Section 3.1: the encoder stack."""

from __future__ import annotations

from torch import Tensor, nn

from fairseq_aiayn.nn.dimensions import Dimensions
from fairseq_aiayn.nn.dropout import Dropout
from fairseq_aiayn.nn.embeddings import Embedding
from fairseq_aiayn.nn.feed_forward import FeedForward
from fairseq_aiayn.nn.residual import AddAndNorm
from fairseq_aiayn.nn.restricted_attention import self_attention


class EncoderLayer(nn.Module):
    """Two sub-layers: self-attention and the feed-forward network."""

    def __init__(self, sizes: Dimensions):
        super().__init__()
        self.self_attention = self_attention(sizes)
        self.self_attention_norm = AddAndNorm(sizes.d_model, sizes.P_drop)
        self.feed_forward = FeedForward(sizes.d_model, sizes.d_ff)
        self.feed_forward_norm = AddAndNorm(sizes.d_model, sizes.P_drop)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """x [B, S, d_model], mask [B, 1, 1, S] → [B, S, d_model]."""
        x = self.self_attention_norm(x, self.self_attention(x, x, mask))
        return self.feed_forward_norm(x, self.feed_forward(x))


class Encoder(nn.Module):
    """Embeddings plus positions, dropout on their sum (section 5.4) and N layers; there is no final
    norm."""

    def __init__(self, sizes: Dimensions, embedding: Embedding, position: nn.Module):
        super().__init__()
        self.embedding = embedding
        self.position = position
        self.dropout = Dropout(sizes.P_drop)
        self.layers = nn.ModuleList(EncoderLayer(sizes) for _ in range(sizes.N))

    def forward(self, tokens: Tensor, pos: Tensor, mask: Tensor | None) -> Tensor:
        """Encode a batch of sources.

        tokens [B, S]; pos [B, S], their positions; mask [B, 1, 1, S], True at real tokens, or None
        if there is no padding. Returns the memory [B, S, d_model].
        """
        x = self.dropout(self.embedding(tokens) + self.position(pos, tokens.size(1)))
        for layer in self.layers:
            x = layer(x, mask)
        return x

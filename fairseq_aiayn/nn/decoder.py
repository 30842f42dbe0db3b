"""Section 3.1: the decoder stack, over whole targets (training) or step by step (search)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from fairseq_aiayn.nn.attention import MultiHeadAttention
from fairseq_aiayn.nn.decoder_state import DecoderState, LayerState
from fairseq_aiayn.nn.dimensions import Dimensions
from fairseq_aiayn.nn.dropout import Dropout
from fairseq_aiayn.nn.embeddings import Embedding
from fairseq_aiayn.nn.feed_forward import FeedForward
from fairseq_aiayn.nn.residual import AddAndNorm


class DecoderLayer(nn.Module):
    """Masked self-attention, attention over the encoder's output, the feed-forward network."""

    def __init__(self, sizes: Dimensions):
        super().__init__()
        self.self_attention = MultiHeadAttention(sizes)
        self.self_attention_norm = AddAndNorm(sizes.d_model, sizes.P_drop)
        self.cross_attention = MultiHeadAttention(sizes)
        self.cross_attention_norm = AddAndNorm(sizes.d_model, sizes.P_drop)
        self.feed_forward = FeedForward(sizes.d_model, sizes.d_ff)
        self.feed_forward_norm = AddAndNorm(sizes.d_model, sizes.P_drop)

    def forward(self, x: Tensor, memory: Tensor, source_mask: Tensor | None) -> Tensor:
        """x [B, T, d_model], memory [B, S, d_model], source_mask [B, 1, 1, S] → [B, T, d_model]."""
        x = self.self_attention_norm(x, self.self_attention(x, x, causal=True))
        x = self.cross_attention_norm(x, self.cross_attention(x, memory, source_mask))
        return self.feed_forward_norm(x, self.feed_forward(x))

    def start(self, memory: Tensor) -> LayerState:
        """Project the memory [B, S, d_model] once for all steps to come."""
        return LayerState(*self.cross_attention.keys_values(memory))

    def step(
        self, x: Tensor, state: LayerState, ancestors: Tensor, source_mask: Tensor | None
    ) -> Tensor:
        """One position of k beams a sentence: x [B, k, d_model] → the same; extends `state`.

        The beams are so many queries of one attention: over the sentence's nodes, of which
        ancestors [B, 1, k, n] says whose they are, and over the source, which is the same for all.
        """
        own, cross = self.self_attention, self.cross_attention
        Q, K, V = own.queries_keys_values(x)
        seen = own.attend(Q, *state.extend(K, V, ancestors.size(3)), ancestors)
        x = self.self_attention_norm(x, seen)
        seen = cross.attend(cross.queries(x), state.memory_K, state.memory_V, source_mask)
        x = self.cross_attention_norm(x, seen)
        return self.feed_forward_norm(x, self.feed_forward(x))


class Decoder(nn.Module):
    """Embeddings plus positions, dropout on their sum, N layers, the pre-softmax projection."""

    def __init__(
        self,
        sizes: Dimensions,
        embedding: Embedding,
        position: nn.Module,
        projection: Embedding,
    ):
        super().__init__()
        self.embedding = embedding
        self.position = position
        self.dropout = Dropout(sizes.P_drop)
        self.layers = nn.ModuleList(DecoderLayer(sizes) for _ in range(sizes.N))
        self.projection = projection

    def forward(self, tokens: Tensor, memory: Tensor, source_mask: Tensor | None) -> Tensor:
        """Features of all positions of a target, each seeing only itself and what precedes it.

        tokens [B, T], shifted right by one and padded on the right, so that no position sees
        padding and causality is all the mask that the target needs; memory [B, S, d_model];
        source_mask [B, 1, 1, S], True at real tokens. Returns [B, T, d_model]; `projection.project`
        makes logits of them.
        """
        x = self._embed(tokens, first=0)
        for layer in self.layers:
            x = layer(x, memory, source_mask)
        return x

    def start(self, memory: Tensor, source_mask: Tensor | None) -> DecoderState:
        """State before the first step over memory [B, S, d_model] with source_mask [B, 1, 1, S]."""
        return DecoderState([layer.start(memory) for layer in self.layers], source_mask)

    def step(self, tokens: Tensor, state: DecoderState) -> Tensor:
        """Features of the next position: the last ones of `forward` over all tokens so far.

        tokens [B·k, 1]: the newest token of each of k beams of each sentence; extends `state`.
        Returns [B·k, 1, d_model].
        """
        x = self._embed(tokens, first=state.length)
        B = state.layers[0].memory_K.size(0)
        beams = x.view(B, -1, x.size(-1))  # [B·k, 1, d_model] -> [B, k, d_model]
        ancestors = state.grow(beams.size(1))
        for layer, layer_state in zip(self.layers, state.layers, strict=True):
            beams = layer.step(beams, layer_state, ancestors, state.source_mask)
        return beams.view_as(x)

    def _embed(self, tokens: Tensor, first: int) -> Tensor:
        longest = first + tokens.size(1)
        pos = torch.arange(first, longest, device=tokens.device)
        return self.dropout(self.embedding(tokens) + self.position(pos, longest))

"""Section 3.1: the decoder stack, over a whole target (training) or step by step (search)."""

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
from fairseq_aiayn.nn.restricted_attention import self_attention


class DecoderLayer(nn.Module):
    """Three sub-layers: masked self-attention, attention over the encoder's output, and the
    feed-forward network."""

    def __init__(self, sizes: Dimensions):
        super().__init__()
        self.self_attention = self_attention(sizes)
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
        """Project the memory [B, S, d_model] to keys and values, once for all later steps."""
        return LayerState(*self.cross_attention.keys_values(memory))

    def step(
        self, x: Tensor, state: LayerState, ancestors: Tensor, source_mask: Tensor | None
    ) -> Tensor:
        """Decode one position of k beams per sentence: x [B, k, d_model] → the same shape.

        Extends `state`. The k beams are k queries of one attention over the sentence's nodes, and
        of another over its source, which all beams share. ancestors [B, 1, k, n] says which nodes
        belong to which beam; source_mask [B, 1, 1, S].
        """
        own, cross = self.self_attention, self.cross_attention
        Q, K, V = own.queries_keys_values(x)
        seen = own.attend(Q, *state.extend(K, V, ancestors.size(3)), ancestors)
        x = self.self_attention_norm(x, seen)
        seen = cross.attend(cross.queries(x), state.memory_K, state.memory_V, source_mask)
        x = self.cross_attention_norm(x, seen)
        return self.feed_forward_norm(x, self.feed_forward(x))


class Decoder(nn.Module):
    """Embeddings plus positions, dropout on their sum, N layers and the pre-softmax projection."""

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
        self.window = sizes.attention_window

    def forward(self, tokens: Tensor, memory: Tensor, source_mask: Tensor | None) -> Tensor:
        """Return the features of all positions of a target; each attends only to itself and to
        earlier positions.

        tokens [B, T] are shifted right by one and padded on the right. So no real position sees
        padding, and the target needs no mask besides causality. memory [B, S, d_model];
        source_mask [B, 1, 1, S], True at real tokens. Returns [B, T, d_model], which
        `projection.project` turns into logits.
        """
        x = self._embed(tokens, first=0)
        for layer in self.layers:
            x = layer(x, memory, source_mask)
        return x

    def start(self, memory: Tensor, source_mask: Tensor | None) -> DecoderState:
        """Return the state before the first step, for memory [B, S, d_model] and source_mask
        [B, 1, 1, S]."""
        layers = [layer.start(memory) for layer in self.layers]
        return DecoderState(layers, source_mask, window=self.window)

    def step(self, tokens: Tensor, state: DecoderState) -> Tensor:
        """Return the features of the next position, which equal the last features of `forward`
        over all tokens so far.

        tokens [B·k, 1]: the newest token of each of the k beams of each sentence. Extends `state`.
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

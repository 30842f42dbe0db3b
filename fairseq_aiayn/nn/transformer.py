"""Figure 1: the encoder, the decoder and the whole Transformer (section 3.1).

The decoder runs over a whole target (training) or step by step (search).
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from fairseq_aiayn.nn.attention import (
    EncoderDecoderAttention,
    SelfAttention,
    barred_connections,
)
from fairseq_aiayn.nn.decoder_state import DecoderState, LayerState
from fairseq_aiayn.nn.dimensions import Dimensions, Sharing
from fairseq_aiayn.nn.initialization import Initialization, initialize
from fairseq_aiayn.nn.layers import (
    AddAndNorm,
    Dropout,
    Embedding,
    FeedForward,
    LearnedPositions,
    Positions,
    SinusoidalPositions,
    positions,
)

__all__ = [
    "Decoder",
    "DecoderLayer",
    "Encoder",
    "EncoderLayer",
    "Transformer",
    "create_transformer",
    "needed_mask",
]


class Transformer(nn.Module):
    """The encoder and the decoder; `padding` is the token that fills up the sentences of a
    batch."""

    def __init__(self, encoder: Encoder, decoder: Decoder, padding: int):
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder
        self.padding = padding

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """source [B, S], padded on either side, and target [B, T], shifted right by one → logits
        [B, T, V]. Reads no values, so that torch.export can follow it."""
        source_mask = padding_mask(source, self.padding)
        memory = self.encode(source, source_mask)
        return self.decoder.projection.project(self.decoder(target, memory, source_mask))

    def encode(self, source: Tensor, source_mask: Tensor | None) -> Tensor:
        """source [B, S], padded on either side, and its mask [B, 1, 1, S], which may be None if
        there is no padding → the memory [B, S, d_model]."""
        return self.encoder(source, positions(source, self.padding), source_mask)


def padding_mask(tokens: Tensor, padding: int) -> Tensor:
    """Return the mask of keys [B, 1, 1, L], True at the real tokens of [B, L]."""
    return tokens.ne(padding)[:, None, None, :]


def needed_mask(tokens: Tensor, padding: int, is_padded: bool | None = None) -> Tensor | None:
    """Return `padding_mask`, or None if there is no padding.

    It is for callers of `Transformer.encode`, because it reads values unless they say whether there
    is padding: it waits for the GPU once per batch. Fused kernels without a mask save more time.
    """
    mask = padding_mask(tokens, padding)
    if is_padded is None:
        is_padded = not mask.all()
    return mask if is_padded else None


class Encoder(nn.Module):
    """Embeddings plus positions, dropout on their sum (section 5.4) and N layers; there is no final
    norm."""

    def __init__(self, sizes: Dimensions, embedding: Embedding, position: Positions):
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
        barred = barred_connections(mask, x)
        for layer in self.layers:
            x = layer(x, barred)
        return x


class EncoderLayer(nn.Module):
    """Two sub-layers: self-attention and the feed-forward network."""

    def __init__(self, sizes: Dimensions):
        super().__init__()
        self.self_attention = SelfAttention(sizes)
        self.self_attention_norm = AddAndNorm(sizes.d_model, sizes.P_drop)
        self.feed_forward = FeedForward(sizes.d_model, sizes.d_ff)
        self.feed_forward_norm = AddAndNorm(sizes.d_model, sizes.P_drop)

    def forward(self, x: Tensor, barred: Tensor | None) -> Tensor:
        """x [B, S, d_model], `barred` connections [B, 1, 1, S] → [B, S, d_model]."""
        x = self.self_attention_norm(x, self.self_attention(x, barred))
        return self.feed_forward_norm(x, self.feed_forward(x))


class Decoder(nn.Module):
    """Embeddings plus positions, dropout on their sum, N layers and the pre-softmax projection."""

    def __init__(
        self,
        sizes: Dimensions,
        embedding: Embedding,
        position: Positions,
        projection: Embedding,
    ):
        super().__init__()
        self.embedding = embedding
        self.position = position
        self.dropout = Dropout(sizes.P_drop)
        self.layers = nn.ModuleList(DecoderLayer(sizes) for _ in range(sizes.N))
        self.projection = projection

    def forward(self, tokens: Tensor, memory: Tensor, source_mask: Tensor | None) -> Tensor:
        """Return the features of all positions of a target; each attends only to itself and to
        earlier positions.

        tokens [B, T] are shifted right by one and padded on the right. So no real position sees
        padding, and the target needs no mask besides causality. memory [B, S, d_model];
        source_mask [B, 1, 1, S], True at real tokens. Returns [B, T, d_model], which
        `projection.project` turns into logits.
        """
        x = self._embed(tokens, first=0)
        barred = barred_connections(source_mask, x)
        for layer in self.layers:
            x = layer(x, memory, barred)
        return x

    def start(self, memory: Tensor, source_mask: Tensor | None) -> DecoderState:
        """Return the state before the first step, for memory [B, S, d_model] and source_mask
        [B, 1, 1, S]."""
        layers = [layer.start(memory) for layer in cast("list[DecoderLayer]", self.layers)]
        no_nodes = memory.new_empty(memory.size(0), 1, 0, 0, dtype=torch.bool)
        return DecoderState(layers, barred_connections(source_mask, memory), no_nodes)

    def step(self, tokens: Tensor, state: DecoderState) -> Tensor:
        """Return the features of the next position, which equal the last features of `forward`
        over all tokens so far.

        tokens [B·k, 1]: the newest token of each of the k beams of each sentence. Extends `state`.
        Returns [B·k, 1, d_model].
        """
        x = self._embed(tokens, first=state.length)
        B = state.layers[0].memory_K.size(0)
        beams = x.view(B, -1, x.size(-1))  # [B·k, 1, d_model] -> [B, k, d_model]
        barred = cast(Tensor, barred_connections(state.grow(beams.size(1)), x))
        layers = cast("list[DecoderLayer]", self.layers)
        for layer, layer_state in zip(layers, state.layers, strict=True):
            beams = layer.step(beams, layer_state, barred, state.barred_source)
        return beams.view_as(x)

    def _embed(self, tokens: Tensor, first: int) -> Tensor:
        length = first + tokens.size(1)
        pos = torch.arange(first, length, device=tokens.device)
        return self.dropout(self.embedding(tokens) + self.position(pos, length))


class DecoderLayer(nn.Module):
    """Three sub-layers: masked self-attention, attention over the encoder's output, and the
    feed-forward network."""

    def __init__(self, sizes: Dimensions):
        super().__init__()
        self.self_attention = SelfAttention(sizes)
        self.self_attention_norm = AddAndNorm(sizes.d_model, sizes.P_drop)
        self.cross_attention = EncoderDecoderAttention(sizes)
        self.cross_attention_norm = AddAndNorm(sizes.d_model, sizes.P_drop)
        self.feed_forward = FeedForward(sizes.d_model, sizes.d_ff)
        self.feed_forward_norm = AddAndNorm(sizes.d_model, sizes.P_drop)

    def forward(self, x: Tensor, memory: Tensor, barred: Tensor | None) -> Tensor:
        """x [B, T, d_model], memory [B, S, d_model] and connections to it that are `barred`,
        [B, 1, 1, S] → [B, T, d_model]."""
        x = self.self_attention_norm(x, self.self_attention(x, causal=True))
        x = self.cross_attention_norm(x, self.cross_attention(x, memory, barred))
        return self.feed_forward_norm(x, self.feed_forward(x))

    def start(self, memory: Tensor) -> LayerState:
        """Project the memory [B, S, d_model] to keys and values, once for all later steps."""
        K, V = self.cross_attention.keys_values(memory)
        return LayerState(K, V, self_K=K[:, :, :0], self_V=V[:, :, :0])

    def step(
        self, x: Tensor, state: LayerState, barred: Tensor, barred_source: Tensor | None
    ) -> Tensor:
        """Decode one position of k beams per sentence: x [B, k, d_model] → the same shape.

        Extends `state`. The k beams are k queries of one attention over the sentence's nodes, and
        of another over its source, which all beams share. `barred`, [B, 1, k, n], are connections
        to nodes that are not a beam's ancestors; `barred_source`, [B, 1, 1, S], those to padding.
        """
        masked, cross = self.self_attention, self.cross_attention
        Q, K, V = masked.queries_keys_values(x)
        seen = masked.attend(Q, *state.extend(K, V, barred.size(3)), barred)
        x = self.self_attention_norm(x, seen)
        seen = cross.attend(cross.queries(x), state.memory_K, state.memory_V, barred_source)
        x = self.cross_attention_norm(x, seen)
        return self.feed_forward_norm(x, self.feed_forward(x))


def create_transformer(
    sizes: Dimensions,
    V_source: int,
    V_target: int,
    padding: int,
    sharing: Sharing = "all",
    learned_lengths: tuple[int, int] | None = None,
    initialization: Initialization = "tensor2tensor",
) -> Transformer:
    """Build a Transformer with fresh weights.

    V_source and V_target are the sizes of the two vocabularies. `sharing` says which embedding
    matrices are one: "all" shares the source embedding, the target embedding and the pre-softmax
    projection (section 3.4), "target" shares only the last two, and "none" keeps three matrices.
    `learned_lengths` are the longest source and the longest target for learned positions (Table 3,
    row E); None means sinusoids. Raises ValueError if the vocabularies must be shared and differ in
    size.
    """
    if sharing == "all" and V_source != V_target:
        raise ValueError(
            "source embedding, target embedding and projection can share a matrix (section 3.4) "
            f"only over one joined vocabulary; got {V_source} source and {V_target} target types"
        )
    target_embedding = Embedding(V_target, sizes.d_model)
    source_embedding = target_embedding if sharing == "all" else Embedding(V_source, sizes.d_model)
    projection = Embedding(V_target, sizes.d_model) if sharing == "none" else target_embedding
    encoder_position: Positions
    decoder_position: Positions
    if learned_lengths is None:
        encoder_position = decoder_position = SinusoidalPositions(sizes.d_model)
    else:
        encoder_position, decoder_position = (
            LearnedPositions(sizes.d_model, length) for length in learned_lengths
        )
    encoder = Encoder(sizes, source_embedding, encoder_position)
    decoder = Decoder(sizes, target_embedding, decoder_position, projection)
    transformer = Transformer(encoder, decoder, padding)
    initialize(transformer, initialization)
    return transformer

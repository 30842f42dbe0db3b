"""Section 3.1: the encoder stack."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn.init import xavier_uniform_, zeros_

from fairseq_aiayn.nn.attention import MultiHeadAttention, self_attention
from fairseq_aiayn.nn.cpu_kernels import Dropout
from fairseq_aiayn.nn.decoder_state import DecoderState, LayerState
from fairseq_aiayn.nn.layers import (
    AddAndNorm,
    Dimensions,
    Embedding,
    FeedForward,
    LearnedPositions,
    SinusoidalPositions,
    positions,
)


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


# Section 3.1: the decoder stack, over a whole target (training) or step by step (search).


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


# The initial values of the weights. The paper does not state them; each scheme follows an existing
# implementation.
#
# | scheme        | feed-forward network          | encoder-decoder attention            |
# |---------------|-------------------------------|--------------------------------------|
# | tensor2tensor | Glorot-uniform, biases 0      | W^Q one matrix, W^K and W^V another  |
# | fairseq-0.9   | Glorot-uniform, biases 0      | W^Q, W^K and W^V one matrix          |
# | fairseq       | as torch.nn.Linear draws them | W^Q, W^K and W^V one matrix          |
#
# "One matrix" means drawn as one matrix. This matters because Glorot's bound √(6 / (fan_in +
# fan_out)) falls with the number of rows. In all three schemes, W^Q, W^K and W^V of a self-
# attention are one Glorot-uniform matrix, W^O is another, and embeddings have the standard
# deviation d_model^−½. The schemes are those of tensor2tensor in June 2017, of fairseq up to
# 0.9.0, and of fairseq since March 2020.


Initialization = Literal["tensor2tensor", "fairseq-0.9", "fairseq"]
INITIALIZATIONS: tuple[Initialization, ...] = get_args(Initialization)


def initialize(transformer: nn.Module, scheme: Initialization) -> None:
    """Draw new weights for the projections and the feed-forward networks; embeddings stay
    unchanged.

    Raises ValueError for an unknown scheme.
    """
    if scheme not in INITIALIZATIONS:
        raise ValueError(
            f"initialization must be one of {', '.join(INITIALIZATIONS)}, got {scheme!r}"
        )
    for module in transformer.modules():
        if isinstance(module, MultiHeadAttention):
            xavier_uniform_(module.W_QKV.weight)
            xavier_uniform_(module.W_O.weight)
        elif isinstance(module, FeedForward):
            draw_feed_forward(module, scheme)
    if scheme == "tensor2tensor":
        for module in transformer.modules():
            if isinstance(module, DecoderLayer):
                draw_queries_apart(module.cross_attention)


def draw_feed_forward(network: FeedForward, scheme: Initialization) -> None:
    """Draw W_1, b_1, W_2 and b_2 of Equation 2."""
    for linear in (network.W_1, network.W_2):
        if scheme == "fairseq":
            linear.reset_parameters()  # uniform within ±1/√fan_in, including the bias
        else:
            xavier_uniform_(linear.weight)
            zeros_(linear.bias)


def draw_queries_apart(attention: MultiHeadAttention) -> None:
    """Draw W^Q as one Glorot-uniform matrix, and W^K and W^V together as another.

    Each matrix has fewer rows than all three together, so the values are larger.
    """
    queries = attention.projection_sizes[0]
    weight = attention.W_QKV.weight.data
    xavier_uniform_(weight[:queries])
    xavier_uniform_(weight[queries:])


# Figure 1: the whole Transformer, assembled.


Sharing = Literal["all", "target", "none"]


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
        [B, T, V]."""
        return self.decoder.projection.project(self.decoder(target, *self.encode(source)))

    def encode(self, source: Tensor) -> tuple[Tensor, Tensor | None]:
        """source [B, S], padded on either side → the memory [B, S, d_model], and its mask
        [B, 1, 1, S] or None."""
        source_mask = non_padding(source, self.padding)
        return self.encoder(source, positions(source, self.padding), source_mask), source_mask


def non_padding(tokens: Tensor, padding: int) -> Tensor | None:
    """Return the mask of keys [B, 1, 1, L], True at the real tokens of [B, L]; None if there is no
    padding."""
    real = tokens.ne(padding)
    # all() waits for the GPU once per batch. Fused kernels without a mask save more time than that.
    return None if real.all() else real[:, None, None, :]


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

    V_source and V_target are the numbers of types in the two vocabularies. `sharing` says which
    embedding matrices are one: "all" shares the source embedding, the target embedding and the
    pre-softmax projection (section 3.4), "target" shares only the last two, and "none" keeps three
    matrices. `learned_lengths` are the longest source and the longest target for learned positions
    (Table 3, row E); None means sinusoids. Raises ValueError if the vocabularies must be shared and
    differ in size, or if `initialization` is unknown.
    """
    if sharing == "all" and V_source != V_target:
        raise ValueError(
            "source embedding, target embedding and projection can share a matrix (section 3.4) "
            f"only over one joined vocabulary; got {V_source} source and {V_target} target types"
        )
    target_embedding = Embedding(V_target, sizes.d_model)
    source_embedding = target_embedding if sharing == "all" else Embedding(V_source, sizes.d_model)
    projection = Embedding(V_target, sizes.d_model) if sharing == "none" else target_embedding
    if learned_lengths is None:
        encoder_position, decoder_position = (SinusoidalPositions(sizes.d_model) for _ in range(2))
    else:
        encoder_position, decoder_position = (
            LearnedPositions(sizes.d_model, length) for length in learned_lengths
        )
    encoder = Encoder(sizes, source_embedding, encoder_position)
    decoder = Decoder(sizes, target_embedding, decoder_position, projection)
    transformer = Transformer(encoder, decoder, padding)
    initialize(transformer, initialization)
    return transformer

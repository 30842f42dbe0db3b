"""Figure 1: the whole Transformer, assembled."""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn

from fairseq_aiayn.nn.decoder import Decoder
from fairseq_aiayn.nn.dimensions import Dimensions
from fairseq_aiayn.nn.embeddings import Embedding
from fairseq_aiayn.nn.encoder import Encoder
from fairseq_aiayn.nn.initialization import Initialization, initialize
from fairseq_aiayn.nn.positions import LearnedPositions, SinusoidalPositions, positions

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

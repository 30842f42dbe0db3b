"""Section 4: self-attention restricted to the r positions around each position.

The paper names it as future work (Table 1, last row); no row of Table 3 has it. Time and memory are
O(n·r·d): positions are cut into blocks, and a block attends to itself and r positions around it.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

from fairseq_aiayn.nn.attention import MultiHeadAttention, attention, fused_attention
from fairseq_aiayn.nn.dimensions import Dimensions

SMALLEST_BLOCK = 32  # positions; smaller products keep a processor waiting


def band_mask(length: int, r: int, causal: bool, device: torch.device | None = None) -> Tensor:
    """Return [length, length], True where positions are at most r apart; a causal one only looks
    back."""
    pos = torch.arange(length, device=device)
    back = pos[:, None] - pos[None, :]
    return (back <= r) & (back >= (0 if causal else -r))


def legal_in_band(
    length: int, r: int, mask: Tensor | None, causal: bool, device: torch.device | None = None
) -> Tensor:
    """Return `band_mask` without padding: mask [B, 1, 1, length], True at real tokens, or None."""
    legal = band_mask(length, r, causal, device)
    if mask is None:
        return legal
    # A padded position may have no neighbour but padding; it sees itself, and nobody sees it.
    return legal & (mask | torch.eye(length, dtype=torch.bool, device=device))


def banded_attention(
    Q: Tensor, K: Tensor, V: Tensor, r: int, mask: Tensor | None = None, causal: bool = False
) -> Tensor:
    """Compute Equation 1 with a band mask, in O(n²·d); the reference for `restricted_attention`."""
    return attention(Q, K, V, legal_in_band(Q.size(2), r, mask, causal, Q.device))


def restricted_attention(
    Q: Tensor,
    K: Tensor,
    V: Tensor,
    r: int,
    mask: Tensor | None,
    causal: bool,
    rate: float,
) -> Tensor:
    """Attend from every position to those at most r away, and if `causal` to none after it.

    Q and K [B, h, L, d_k], V [B, h, L, d_v], mask [B, 1, 1, L], True at real tokens, or None;
    `rate` as in `fused_attention`. Returns [B, h, L, d_v].
    """
    B, L = Q.size(0), Q.size(2)
    if r >= L - 1 and (mask is None or not causal):  # the fused kernel takes one of the two
        return fused_attention(Q, K, V, mask, causal, rate)
    size = max(r, SMALLEST_BLOCK)
    blocks = -(-L // size)
    filled, after = blocks * size - L, 0 if causal else r
    legal = _legal(mask, L, size, blocks, r, after, Q.device)
    width = legal.size(3)  # of the keys that a block sees
    heads = fused_attention(
        _by_block(pad(Q, (0, 0, 0, filled)).unfold(2, size, size)),
        _by_block(pad(K, (0, 0, r, filled + after)).unfold(2, width, size)),
        _by_block(pad(V, (0, 0, r, filled + after)).unfold(2, width, size)),
        legal.expand(B, -1, -1, -1).flatten(0, 1)[:, None],
        causal=False,
        rate=rate,
    )
    heads = heads.unflatten(0, (B, blocks)).transpose(1, 2)  # [B, h, blocks, size, d_v]
    return heads.flatten(2, 3)[:, :, :L]


class RestrictedSelfAttention(MultiHeadAttention):
    """Multi-head self-attention over whole sentences, restricted to `attention_window` positions on
    either side."""

    def __init__(self, sizes: Dimensions):
        super().__init__(sizes)
        self.r = sizes.attention_window

    def forward(
        self, x: Tensor, memory: Tensor, mask: Tensor | None = None, causal: bool = False
    ) -> Tensor:
        """x [B, L, d_model], which is also the memory; mask [B, 1, 1, L] → [B, L, d_model]."""
        projected = self.queries_keys_values(x)
        return self.join(restricted_attention(*projected, self.r, mask, causal, self.dropout_now))

    def legal(self, length: int, mask: Tensor | None, causal: bool) -> Tensor:
        """Return which connections `forward` allows, as a mask of `attention_weights`."""
        return legal_in_band(length, self.r, mask, causal, self.W_O.weight.device)


def self_attention(sizes: Dimensions) -> MultiHeadAttention:
    """Return the self-attention of a layer, restricted if the dimensions have a window."""
    restricted = sizes.attention_window is not None
    return RestrictedSelfAttention(sizes) if restricted else MultiHeadAttention(sizes)


def _by_block(parts: Tensor) -> Tensor:
    """[B, h, blocks, d, width] → [B·blocks, h, width, d]."""
    return parts.permute(0, 2, 1, 4, 3).flatten(0, 1)


def _legal(
    mask: Tensor | None, L: int, size: int, blocks: int, r: int, after: int, device: torch.device
) -> Tensor:
    """Return [B or 1, blocks, size, width], True where a query of a block may see a key."""
    width = r + size + after
    real = torch.ones(1, 1, 1, L, dtype=torch.bool, device=device) if mask is None else mask
    real = pad(real, (r, blocks * size - L + after)).unfold(3, width, size)
    # Key 0 of a block is r positions before its query 0
    back = torch.arange(size, device=device)[:, None] + r - torch.arange(width, device=device)
    # A padded position sees itself, so that it always sees something
    return (real[:, 0, 0, :, None] | (back == 0)) & (back <= r) & (back >= -after)

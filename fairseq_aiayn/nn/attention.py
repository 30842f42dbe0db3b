"""Section 3.2: scaled dot-product attention and multi-head attention."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.functional import pad

from fairseq_aiayn.nn.cpu_kernels import dropout
from fairseq_aiayn.nn.layers import Dimensions


def attention_weights(Q: Tensor, K: Tensor, mask: Tensor | None = None) -> Tensor:
    """Return softmax(QKᵀ/√d_k) of Equation 1, with −∞ at illegal connections (section 3.2.3).

    Q [..., Q, d_k], K [..., M, d_k], mask broadcastable to [..., Q, M], True = may attend. Returns
    [..., Q, M].
    """
    scores = Q @ K.transpose(-2, -1) / math.sqrt(Q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    return scores.softmax(dim=-1)


def attention(Q: Tensor, K: Tensor, V: Tensor, mask: Tensor | None = None) -> Tensor:
    """Return Equation 1, Attention(Q, K, V) = softmax(QKᵀ/√d_k)V; the reference for
    `fused_attention`.

    Q [..., Q, d_k], K [..., M, d_k], V [..., M, d_v], mask as in `attention_weights`.
    Returns [..., Q, d_v].
    """
    return attention_weights(Q, K, mask) @ V


def fused_attention(
    Q: Tensor, K: Tensor, V: Tensor, mask: Tensor | None, causal: bool, rate: float
) -> Tensor:
    """Compute `attention` with PyTorch's fused kernel, which does not store the [Q, M] matrix.

    Shapes as in `attention`; `causal` has the effect of a causal_mask; `rate` is the
    probability of dropping an attention weight. Raises ValueError for a mask that is also causal.
    """
    if causal and mask is not None:
        raise ValueError("attention takes a mask or causal, not both")
    slow = rate > 0.0 or (Q.dtype == torch.bfloat16 and torch.is_grad_enabled())
    if Q.is_cpu and slow:
        # On a CPU, the kernel has no dropout, and its backward pass in bfloat16 takes ten times as
        # long as Equation 1.
        mask = causal_mask(Q.size(-2), Q.device) if causal else mask
        return dropout(attention_weights(Q, K, mask), rate) @ V
    return F.scaled_dot_product_attention(Q, K, V, attn_mask=mask, dropout_p=rate, is_causal=causal)


def causal_mask(length: int, device: torch.device | None = None) -> Tensor:
    """Return the mask of section 3.2.3, [length, length]: row i is True at positions 0 to i."""
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()


class MultiHeadAttention(nn.Module):
    """Section 3.2.2: h attentions in parallel, each on its own projections, concatenated and
    projected by W^O.

    d_k, d_v and h can be chosen independently. The projections have no bias. The rows of W^Q, W^K
    and W^V of all heads are stacked in one matrix, W_QKV [h·(2·d_k + d_v), d_model], so that one
    matrix product computes several projections of the same input.
    """

    def __init__(self, sizes: Dimensions):
        super().__init__()
        self.h = sizes.h
        self.attention_dropout = sizes.attention_dropout
        self.projection_sizes = (
            sizes.h * sizes.d_k,
            sizes.h * sizes.d_k,
            sizes.h * sizes.d_v,
        )
        self.W_QKV = nn.Linear(sizes.d_model, sum(self.projection_sizes), bias=False)
        self.W_O = nn.Linear(sizes.h * sizes.d_v, sizes.d_model, bias=False)

    def forward(
        self, x: Tensor, memory: Tensor, mask: Tensor | None = None, causal: bool = False
    ) -> Tensor:
        """Attend from x to memory.

        x [B, Q, d_model] gives the queries, memory [B, M, d_model] the keys and values; mask is
        broadcastable to [B, h, Q, M], True = may attend. `causal` has the effect of causal_mask(Q);
        it takes the place of a mask and requires that x and memory have the same length. Returns
        [B, Q, d_model].
        """
        if x is memory:
            Q, K, V = self.queries_keys_values(x)
        else:
            Q, (K, V) = self.queries(x), self.keys_values(memory)
        return self.attend(Q, K, V, mask, causal)

    def queries_keys_values(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return xW_i^Q, xW_i^K and xW_i^V of every head, for self-attention: x [B, L, d_model] →
        [B, h, L, d_k], [B, h, L, d_k], [B, h, L, d_v]."""
        Q, K, V = self.W_QKV(x).split(self.projection_sizes, dim=-1)
        return self._split_heads(Q), self._split_heads(K), self._split_heads(V)

    def queries(self, x: Tensor) -> Tensor:
        """Return xW_i^Q of every head: x [B, Q, d_model] → [B, h, Q, d_k]."""
        return self._split_heads(F.linear(x, self.W_QKV.weight[: self.projection_sizes[0]]))

    def keys_values(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Return memory W_i^K and memory W_i^V of every head: memory [B, M, d_model] →
        [B, h, M, d_k], [B, h, M, d_v]."""
        projected = F.linear(memory, self.W_QKV.weight[self.projection_sizes[0] :])
        K, V = projected.split(self.projection_sizes[1:], dim=-1)
        return self._split_heads(K), self._split_heads(V)

    def attend(
        self, Q: Tensor, K: Tensor, V: Tensor, mask: Tensor | None = None, causal: bool = False
    ) -> Tensor:
        """Return Concat(head_1, …, head_h)W^O for projected queries, keys and values.

        Q [B, h, Q, d_k], K [B, h, M, d_k], V [B, h, M, d_v] → [B, Q, d_model].
        """
        return self.join(fused_attention(Q, K, V, mask, causal, self.dropout_now))

    def legal(self, length: int, mask: Tensor | None, causal: bool) -> Tensor | None:
        """Return which connections `forward` allows, as a mask of `attention_weights`; `length` is
        the number of queries, mask and causal are as in `forward`."""
        return causal_mask(length, self.W_O.weight.device) if causal else mask

    @property
    def dropout_now(self) -> float:
        """The rate at which attention weights are dropped: 0 outside training."""
        return self.attention_dropout if self.training else 0.0

    def join(self, heads: Tensor) -> Tensor:
        """Return Concat(head_1, …, head_h)W^O: heads [B, h, Q, d_v] → [B, Q, d_model]."""
        return self.W_O(heads.transpose(1, 2).flatten(2))

    def _split_heads(self, projected: Tensor) -> Tensor:
        return projected.unflatten(-1, (self.h, -1)).transpose(1, 2)  # [B, L, h·d] -> [B, h, L, d]


# Section 4: self-attention restricted to the r positions around each position.
#
# The paper names it as future work (Table 1, last row); no row of Table 3 has it. Time and memory
# are O(n·r·d): positions are cut into blocks, and a block attends to itself and r positions
# around it.


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

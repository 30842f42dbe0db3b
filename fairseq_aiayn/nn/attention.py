"""Section 3.2: scaled dot-product attention and multi-head attention."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_aiayn.nn.cpu_kernels import (
    dropout,
    fused_kernel_is_slow,
    linear,
    type_of_products,
)
from fairseq_aiayn.nn.dimensions import Dimensions
from fairseq_aiayn.nn.layers import Linear

__all__ = ["MultiHeadAttention", "attention_weights", "legal_connections"]


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
    Q: Tensor, K: Tensor, V: Tensor, barred: Tensor | None, causal: bool, rate: float
) -> Tensor:
    """Compute `attention` with PyTorch's fused kernel, which does not store the [Q, M] matrix.

    Shapes as in `attention`; `barred` are the `barred_connections` of a mask; `causal` has the
    effect of a causal_mask and takes their place; `rate` is the probability of dropping an
    attention weight.
    """
    if fused_kernel_is_slow(Q, rate):
        mask = legal_connections(Q, barred, causal)
        return dropout(attention_weights(Q, K, mask), rate) @ V
    return F.scaled_dot_product_attention(
        Q, K, V, attn_mask=barred, dropout_p=rate, is_causal=causal
    )


def barred_connections(mask: Tensor | None, x: Tensor) -> Tensor | None:
    """Return what is added to the scores of a product with x: 0 at legal connections, −∞ at illegal
    ones (section 3.2.3), which is log 1 and log 0; None for no mask.

    A stack of layers calls it once. Given a mask of bools, the kernel would do this in every layer.
    """
    return None if mask is None else mask.float().log().to(type_of_products(x))


def legal_connections(Q: Tensor, barred: Tensor | None, causal: bool) -> Tensor | None:
    """Return the mask of `attention_weights` from the arguments of an attention over queries Q."""
    if causal:
        return causal_mask(Q.size(-2), Q.device)
    return None if barred is None else barred == 0


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
        self.W_QKV = Linear(sizes.d_model, sum(self.projection_sizes), bias=False)
        self.W_O = Linear(sizes.h * sizes.d_v, sizes.d_model, bias=False)

    def queries_keys_values(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return xW_i^Q, xW_i^K and xW_i^V of every head: x [B, L, d_model] → [B, h, L, d_k],
        [B, h, L, d_k], [B, h, L, d_v]."""
        Q, K, V = self.W_QKV(x).split(self.projection_sizes, dim=-1)
        return self._split_heads(Q), self._split_heads(K), self._split_heads(V)

    def matrices(self) -> tuple[Tensor, ...]:
        """Return W^Q [h·d_k, d_model] and W^K with W^V [h·(d_k + d_v), d_model], of all heads."""
        h_d_k, _, h_d_v = self.projection_sizes
        return self.W_QKV.weight.split((h_d_k, h_d_k + h_d_v))

    def queries(self, x: Tensor, W_Q: Tensor | None = None) -> Tensor:
        """Return xW_i^Q of every head: x [B, Q, d_model] → [B, h, Q, d_k]."""
        return self._split_heads(linear(x, self.matrices()[0] if W_Q is None else W_Q))

    def keys_values(self, memory: Tensor, W_KV: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return memory W_i^K and memory W_i^V of every head: memory [B, M, d_model] →
        [B, h, M, d_k], [B, h, M, d_v]."""
        projected = linear(memory, self.matrices()[1] if W_KV is None else W_KV)
        K, V = projected.split(self.projection_sizes[1:], dim=-1)
        return self._split_heads(K), self._split_heads(V)

    def attend(
        self, Q: Tensor, K: Tensor, V: Tensor, barred: Tensor | None, causal: bool = False
    ) -> Tensor:
        """Return Concat(head_1, …, head_h)W^O for projected queries, keys and values.

        Q [B, h, Q, d_k], K [B, h, M, d_k], V [B, h, M, d_v] → [B, Q, d_model]; `barred`, as
        `barred_connections` returns them, are broadcastable to [B, h, Q, M]. Attention weights are
        dropped in training only.
        """
        rate = self.attention_dropout if self.training else 0.0
        heads = fused_attention(Q, K, V, barred, causal, rate)
        return self.W_O(heads.transpose(1, 2).flatten(2))

    def _split_heads(self, projected: Tensor) -> Tensor:
        return projected.unflatten(-1, (self.h, -1)).transpose(1, 2)  # [B, L, h·d] -> [B, h, L, d]


class SelfAttention(MultiHeadAttention):
    """Attention of a sequence over itself."""

    def forward(self, x: Tensor, barred: Tensor | None = None, causal: bool = False) -> Tensor:
        """x [B, L, d_model] → [B, L, d_model]; `barred` connections, broadcastable to [B, h, L, L].
        `causal` has the effect of causal_mask(L) and takes their place."""
        return self.attend(*self.queries_keys_values(x), barred, causal)


class EncoderDecoderAttention(MultiHeadAttention):
    """Attention of the decoder over the encoder's output, the memory."""

    def forward(self, x: Tensor, memory: Tensor, barred: Tensor | None = None) -> Tensor:
        """x [B, T, d_model] gives the queries, memory [B, S, d_model] the keys and values; `barred`
        connections are broadcastable to [B, h, T, S]. Returns [B, T, d_model]."""
        W_Q, W_KV = self.matrices()  # split once, so that their gradients are joined by one copy
        return self.attend(self.queries(x, W_Q), *self.keys_values(memory, W_KV), barred)

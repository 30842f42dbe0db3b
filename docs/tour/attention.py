"""Section 3.2: why the scores are divided by √d_k, and what a mask does."""

from __future__ import annotations

import torch

from fairseq_aiayn.nn.attention import MultiHeadAttention, attention_weights, causal_mask
from fairseq_aiayn.nn.layers import Dimensions
from fairseq_aiayn.paper import A_H1, A_H4, A_H16, A_H32, BASE, Row
from fairseq_aiayn.report.document import Table

QUERIES, KEYS = 2_000, 10


def scaling() -> Table:
    """Compare softmax(QKᵀ) with softmax(QKᵀ/√d_k) for components with mean 0 and variance 1.

    w is the largest of a query's weights, w(1 − w) its derivative with respect to its own
    score.
    """
    torch.manual_seed(1)
    rows = []
    for d_k in (4, 16, 64, 256):
        Q, K = torch.randn(QUERIES, 1, d_k), torch.randn(QUERIES, KEYS, d_k)
        scaled = attention_weights(Q, K).amax(dim=-1)
        unscaled = attention_weights(Q * d_k**0.5, K).amax(dim=-1)
        scores = Q @ K.transpose(1, 2)
        rows.append(
            [
                str(d_k),
                f"{scores.var():.1f}",
                f"{(scores / d_k**0.5).var():.2f}",
                *(f"{w.mean():.2f}" for w in (unscaled, scaled)),
                *(f"{(w * (1 - w)).mean():.3f}" for w in (unscaled, scaled)),
            ]
        )
    header = ["d_k", "variance of q·k", "variance of q·k/√d_k", "w of q·k", "w of q·k/√d_k"]
    return Table([*header, "w(1 − w) of q·k", "w(1 − w) of q·k/√d_k"], rows)


def masked_weights() -> Table:
    """Return the weights of five positions under the mask of the decoder."""
    torch.manual_seed(1)
    Q, K = torch.randn(5, 8), torch.randn(5, 8)
    weights = attention_weights(Q, K, causal_mask(5))
    header = ["position", *(f"to {key}" for key in range(1, 6))]
    rows = [[str(i), *(f"{w:.2f}" for w in row)] for i, row in enumerate(weights.tolist(), 1)]
    return Table(header, rows)


def dimensions_of(row: Row) -> Dimensions:
    """Return the sizes of a row of Table 3."""
    return Dimensions(row.N, row.d_model, row.d_ff, row.h, row.d_k, row.d_v, row.P_drop)


def heads() -> Table:
    """Return the parameters of an attention with 1 to 32 heads, and the paper's BLEU for them."""
    rows = []
    for row in (A_H1, A_H4, BASE, A_H16, A_H32):
        attention = MultiHeadAttention(dimensions_of(row))
        parameters = sum(p.numel() for p in attention.parameters())
        rows.append([str(row.h), str(row.d_k), f"{parameters:,}", str(row.published.bleu)])
    return Table(["h", "d_k = d_v", "parameters of one attention", "BLEU (Table 3)"], rows, left=0)

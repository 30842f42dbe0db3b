"""Figure 1: where the parameters of base are."""

from __future__ import annotations

import torch

from fairseq_aiayn.nn.attention import MultiHeadAttention
from fairseq_aiayn.nn.layers import Embedding, FeedForward
from fairseq_aiayn.nn.transformer import create_transformer
from fairseq_aiayn.paper import BASE, VOCABULARY_EN_DE
from fairseq_aiayn.report.document import Table
from tour.attention import dimensions_of

PARTS = {
    "the shared embedding": Embedding,
    "18 attentions": MultiHeadAttention,
    "12 feed-forward networks": FeedForward,
    "30 layer norms": torch.nn.LayerNorm,
}


def parameters() -> Table:
    """Count the parameters of base by kind of module."""
    with torch.device("meta"):
        model = create_transformer(
            dimensions_of(BASE), VOCABULARY_EN_DE, VOCABULARY_EN_DE, padding=1
        )
    total = sum(p.numel() for p in model.parameters())
    rows = []
    for name, kind in PARTS.items():
        modules = [m for m in model.modules() if isinstance(m, kind)]
        count = sum(p.numel() for p in {p for m in modules for p in m.parameters()})
        rows.append([name, f"{count:,}", f"{100 * count / total:.1f}%"])
    return Table(["part of base", "parameters", "share"], [*rows, ["all", f"{total:,}", ""]])

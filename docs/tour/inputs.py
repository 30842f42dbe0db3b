"""Sections 3.4 and 3.5: why embeddings are multiplied by √d_model, and what sinusoids encode."""

from __future__ import annotations

import torch
from matplotlib.figure import Figure

from fairseq_aiayn.attention_maps.picture import draw_positions, sinusoid_table
from fairseq_aiayn.nn.layers import Embedding, sinusoids
from fairseq_aiayn.paper import BASE, VOCABULARY_EN_DE
from fairseq_aiayn.report.document import Table

POSITIONS = 1_000


def embedding_scale() -> Table:
    """Draw the embeddings with two standard deviations.

    Compare the lengths of the vectors that are added before the first layer, and the logits.
    """
    torch.manual_seed(1)
    d = BASE.d_model
    position = sinusoids(POSITIONS, d).norm(dim=-1).mean()
    x = torch.nn.functional.layer_norm(torch.randn(100, d), [d])  # features after the last norm
    rows = []
    for name, std in (("d_model^−½", d**-0.5), ("1", 1.0)):
        E = Embedding(VOCABULARY_EN_DE, d)
        torch.nn.init.normal_(E.weight, std=std)
        words = torch.arange(1_000)[None]
        plain, scaled = E.weight.norm(dim=-1).mean(), E(words).norm(dim=-1).mean()
        logits = E.project(x).std()
        rows.append([name, *(f"{v:.1f}" for v in (plain, scaled, position, logits))])
    header = [
        "standard deviation of E",
        "length of E[w]",
        "length of √d_model · E[w]",
        "length of PE(pos)",
    ]
    return Table([*header, "standard deviation of logits"], rows)


def offsets() -> Table:
    """Return PE(pos) · PE(pos + k) / |PE|² at two positions, and the error of a rotation by k."""
    d = BASE.d_model
    table = sinusoids(2 * POSITIONS, d).double()
    rows = []
    for k in (0, 1, 2, 5, 10, 50, 100):
        near, far = (table[pos] @ table[pos + k] / (d / 2) for pos in (10, 900))
        error = (rotated(table[:POSITIONS], k) - table[k : POSITIONS + k]).abs().max()
        rows.append([str(k), f"{near:.3f}", f"{far:.3f}", f"{error:.0e}"])
    return Table(["k", "at pos = 10", "at pos = 900", "largest error of the rotation"], rows)


def rotated(encodings: torch.Tensor, k: int) -> torch.Tensor:
    """Turn each pair (sine, cosine) of [L, d_model] by the angle of k positions."""
    angle = sinusoids(k + 1, encodings.size(1))[k].double().view(-1, 2)
    sine, cosine = angle[:, 0], angle[:, 1]
    s, c = encodings.view(len(encodings), -1, 2).unbind(dim=-1)
    return torch.stack([s * cosine + c * sine, c * cosine - s * sine], dim=-1).flatten(1)


def positions_picture() -> Figure:
    """Draw the sinusoids of base and their dot products."""
    return draw_positions(sinusoid_table(BASE.d_model))

"""Section 3.5 as a picture: positional encodings, and how alike they make positions."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from fairseq_aiayn.nn.positions import LearnedPositions, sinusoids
from fairseq_aiayn.nn.transformer import Transformer

POSITIONS = 100  # that are drawn, of a longer table
WIDTH, HEIGHT = 15.0, 4.4  # inches of a table's two pictures: a wide one, for many dimensions


def sinusoid_table(d_model: int) -> dict[str, Tensor]:
    """The sinusoids of the first POSITIONS, [POSITIONS, d_model], under the name to show."""
    return {"sinusoids": sinusoids(POSITIONS, d_model)}


def position_tables(transformer: Transformer) -> dict[str, Tensor]:
    """The sinusoids of a model's size and, where its positions are learned (row E), those of either
    stack: [at most POSITIONS, d_model] each, under the name to show."""
    stacks = {"encoder": transformer.encoder, "decoder": transformer.decoder}
    tables = sinusoid_table(transformer.encoder.embedding.weight.size(1))
    for name, stack in stacks.items():
        if isinstance(stack.position, LearnedPositions):
            tables[f"learned, {name}"] = stack.position.weight.detach()[:POSITIONS]
    return tables


def draw_positions(tables: Mapping[str, Tensor]) -> Figure:
    """Each table's encodings [L, d_model], and beside them the dot products of positions, [L, L].

    Blue is below 0 and red above; each picture has its own scale.
    """
    figure = Figure(figsize=(WIDTH, HEIGHT * len(tables)), layout="constrained", facecolor="white")
    axes = figure.subplots(len(tables), 2, squeeze=False, width_ratios=(9, 4))
    for (name, table), (left, right) in zip(tables.items(), axes, strict=True):
        table = table.float().cpu()
        _heat(left, table, f"{name}: encoding", ("dimension", "position"))
        _heat(right, table @ table.T, f"{name}: dot products", ("position", "position"))
    return figure


def _heat(axes: Axes, values: Tensor, title: str, names: tuple[str, str]) -> None:
    limit = max(values.abs().max().item(), 1e-9)
    image = axes.imshow(
        values.numpy(), cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="auto", interpolation="none"
    )
    axes.set_title(title)
    axes.set_xlabel(names[0])
    axes.set_ylabel(names[1])
    axes.figure.colorbar(image, ax=axes, pad=0.01)

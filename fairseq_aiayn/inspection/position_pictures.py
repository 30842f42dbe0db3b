"""Pictures of positional encodings and of their dot products (section 3.5)."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from fairseq_aiayn.nn.positions import LearnedPositions, sinusoids
from fairseq_aiayn.nn.transformer import Transformer

POSITIONS = 100  # of a longer table, only these are drawn
WIDTH, HEIGHT = 15.0, 4.4  # inches: the two pictures of a table together


def sinusoid_table(d_model: int) -> dict[str, Tensor]:
    """Return the sinusoids of the first POSITIONS, [POSITIONS, d_model], by the name to show."""
    return {"sinusoids": sinusoids(POSITIONS, d_model)}


def position_tables(transformer: Transformer) -> dict[str, Tensor]:
    """Return a model's positional encodings by the name to show.

    These are the sinusoids of the model's size and, if positions are learned (row E), those of the
    encoder and of the decoder. Each table is [at most POSITIONS, d_model].
    """
    stacks = {"encoder": transformer.encoder, "decoder": transformer.decoder}
    tables = sinusoid_table(transformer.encoder.embedding.weight.size(1))
    for name, stack in stacks.items():
        if isinstance(stack.position, LearnedPositions):
            tables[f"learned, {name}"] = stack.position.weight.detach()[:POSITIONS]
    return tables


def draw_positions(tables: Mapping[str, Tensor]) -> Figure:
    """Draw each table's encodings [L, d_model] beside the dot products of its positions [L, L].

    Values below 0 are blue, values above 0 red; each picture has its own scale.
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

"""Pictures of attention as lines between words (Figures 3-5), and of positional encodings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.font_manager import fontManager
from torch import Tensor

from fairseq_aiayn.attention_maps.weights import KINDS, Selection
from fairseq_aiayn.console import shortened
from fairseq_aiayn.files import whole_path
from fairseq_aiayn.nn.layers import LearnedPositions, sinusoids
from fairseq_aiayn.nn.transformer import Transformer
from fairseq_aiayn.palette import line_colour

DPI = 160  # of a PNG
# Text in SVG stays text: it can be searched, and the reader's fonts are used.
STYLE = {"svg.fonttype": "none", "svg.hashsalt": "fairseq_aiayn", "pdf.fonttype": 42}
in_our_style = style.context(["default", STYLE])  # whatever the user's matplotlibrc says
NO_DATE = {".png": {}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
# A character is written in the first of these that is installed and has it; the first, which is
# part of matplotlib, has Latin, Greek, Cyrillic, Arabic and Hebrew, the last a box for the others
FONTS = (
    *("DejaVu Sans", "Noto Sans CJK SC", "Noto Sans CJK JP", "Source Han Sans", "PingFang SC"),
    *("Hiragino Sans", "Microsoft YaHei", "WenQuanYi Zen Hei", "Noto Sans Devanagari"),
    *("Noto Sans Thai", "Noto Emoji", "Arial Unicode MS", "Unifont", "Last Resort High-Efficiency"),
)

WIDTH, ROW = 3.0, 0.25  # inches: between the columns of words, and from word to word
GAP = 0.08  # inches, beside words
LARGEST_SPREAD = 0.03  # inches from one head's line to the next
INVISIBLE = 1 / 255  # an opacity below this changes no pixel
INK, FAINT = "#1b1b1f", "#77777f"
NOTE = "words on the left attend to words on the right; the opacity of a line is its weight"


@in_our_style
def draw_lines(selection: Selection) -> Figure:
    """Draw the selected heads, each in its colour, from the queries on the left to the keys on the
    right, whose words stand beside the figure; the opacity of a line is its weight."""
    shown = selection.map
    height = ROW * max(len(shown.queries), len(shown.keys))
    figure = Figure(figsize=(WIDTH, height), facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, WIDTH), ylim=(height, 0))  # in inches
    axes.set_axis_off()
    for row, word in enumerate(shown.queries):
        colour = INK if row in selection.queries else FAINT
        _write(axes, -GAP, _middle(row), shortened(word), colour=colour, ha="right")
    for row, word in enumerate(shown.keys):
        _write(axes, WIDTH + GAP, _middle(row), shortened(word))
    for slot, head in enumerate(selection.heads):
        _draw_head(axes, selection, slot, head)
    _write_heading(axes, selection)
    return figure


def _middle(row: int) -> float:
    return ROW * (row + 0.5)


def _draw_head(axes: Axes, selection: Selection, slot: int, head: int) -> None:
    colour, heads = line_colour(head), len(selection.heads)
    weights = selection.map.weights[selection.layer, head].clamp(max=1).tolist()  # rounding errors
    # The lines of different heads between the same words lie beside each other
    beside = (slot - (heads - 1) / 2) * min(LARGEST_SPREAD, 0.5 * ROW / heads)
    ends, colours = [], []
    for query in selection.queries:
        for key, weight in enumerate(weights[query]):
            if weight >= INVISIBLE:
                ends.append([(0, _middle(query) + beside), (WIDTH, _middle(key) + beside)])
                colours.append(to_rgba(colour, weight))
    axes.add_collection(
        LineCollection(ends, colors=colours, linewidths=1.6, gid=f"head-{head + 1}")
    )


def _write_heading(axes: Axes, selection: Selection) -> None:
    """Write the title, the heads in their colours and the captions of both columns."""
    shown = selection.map
    kind = KINDS[shown.kind]
    title = f"{kind.title}, layer {selection.layer + 1} of {shown.weights.size(0)}"
    _write(axes, 0, -4 * ROW, title, size=13)
    _write(axes, 0, -3 * ROW, NOTE, size=9, colour=FAINT)
    _write(axes, -GAP, -1.7 * ROW, "head", colour=FAINT, ha="right")
    for slot, head in enumerate(selection.heads):
        name, colour = str(head + 1), line_colour(head)
        _write(axes, 1.4 * ROW * slot, -1.7 * ROW, name, colour=colour)
    _write(axes, -GAP, -0.5 * ROW, kind.queries, colour=FAINT, ha="right")
    _write(axes, WIDTH + GAP, -0.5 * ROW, kind.keys, colour=FAINT)


def _write(
    axes: Axes, x: float, y: float, text: str, size: float = 10.5, colour: str = INK, **style: Any
) -> None:
    """Write a text that begins, or ends, at x with its middle at y."""
    installed = {font.name for font in fontManager.ttflist}
    axes.text(
        *(x, y, text),
        size=size,
        color=colour,
        family=[name for name in FONTS if name in installed],
        va="center",
        parse_math=False,  # a word may contain dollar signs
        **style,
    )


@in_our_style
def save_picture(figure: Figure, path: Path) -> None:
    """Write a figure in the format of the path's suffix, one of NO_DATE, whole or not at all, with
    the same bytes at any time; raises OSError if the file cannot be written."""
    suffix = path.suffix.lower()
    with whole_path(path) as part:
        figure.savefig(
            part,
            format=suffix[1:],
            dpi=DPI,
            metadata=NO_DATE[suffix],
            bbox_inches="tight",
            pad_inches=0.3,
        )


POSITIONS = 100  # of a longer table, only these are drawn


def sinusoid_table(d_model: int) -> dict[str, Tensor]:
    """Return the sinusoids of the first POSITIONS, [POSITIONS, d_model], by the name to show."""
    return {"sinusoids": sinusoids(POSITIONS, d_model)}


def position_tables(transformer: Transformer) -> dict[str, Tensor]:
    """Return a model's positional encodings, each [at most POSITIONS, d_model], by the name to
    show: the sinusoids and, if positions are learned (row E), those of the encoder and of the
    decoder."""
    stacks = {"encoder": transformer.encoder, "decoder": transformer.decoder}
    tables = sinusoid_table(transformer.encoder.embedding.weight.size(1))
    for name, stack in stacks.items():
        if isinstance(stack.position, LearnedPositions):
            tables[f"learned, {name}"] = stack.position.weight.detach()[:POSITIONS]
    return tables


@in_our_style
def draw_positions(tables: Mapping[str, Tensor]) -> Figure:
    """Draw each table's encodings [L, d_model] beside the dot products of its positions [L, L]
    (section 3.5), below 0 blue, above 0 red, each picture on its own scale."""
    figure = Figure(figsize=(15.0, 4.4 * len(tables)), layout="constrained", facecolor="white")
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
    axes.set(title=title, xlabel=names[0], ylabel=names[1])
    axes.figure.colorbar(image, ax=axes, pad=0.01)

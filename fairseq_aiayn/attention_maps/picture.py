"""Pictures of attention as lines between words (Figures 3-5), and of positional encodings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.font_manager import fontManager
from torch import Tensor

from fairseq_aiayn.attention_maps.weights import KINDS, VISIBLE, Selection
from fairseq_aiayn.console import shortened
from fairseq_aiayn.files import whole_path
from fairseq_aiayn.nn.layers import LearnedPositions, sinusoids
from fairseq_aiayn.nn.transformer import Transformer
from fairseq_aiayn.palette import line_colour
from fairseq_aiayn.paper import BASE

__all__ = ["draw_lines", "draw_positions", "position_tables", "save_picture"]

# A character is written in the first of these that is installed and has it; the first, which is
# part of matplotlib, has Latin, Greek, Cyrillic, Arabic and Hebrew
FONTS = (
    *("DejaVu Sans", "Noto Sans CJK SC", "Noto Sans CJK JP", "Source Han Sans", "PingFang SC"),
    *("Hiragino Sans", "Microsoft YaHei", "WenQuanYi Zen Hei", "Noto Sans Devanagari"),
    *("Noto Sans Thai", "Noto Emoji", "Arial Unicode MS", "Unifont"),
)

STYLE = {
    "font.family": [font for font in FONTS if font in fontManager.get_font_names()],
    "text.parse_math": False,  # a word may contain dollar signs
    "savefig.dpi": 160,
    "savefig.bbox": "tight",
    "savefig.pad_inches": 0.3,
    "svg.fonttype": "none",  # text stays text: it can be searched, and the reader's fonts are used
    "svg.hashsalt": "fairseq_aiayn",
    "pdf.fonttype": 42,
}
in_our_style = style.context(["default", STYLE])  # whatever the user's matplotlibrc says
NO_DATE = {".png": {}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}

WIDTH, ROW = 3.0, 0.25  # inches: between the columns of words, and from word to word
LABEL_GAP = 0.08  # inches, beside words
LARGEST_SPREAD = 0.12  # rows, from one head's line to the next
INK, FAINT = "#1b1b1f", "#77777f"
NOTE = "words on the left attend to words on the right; the opacity of a line is its weight"


@in_our_style
def draw_lines(selection: Selection) -> Figure:
    """Draw the selected heads, each in its colour, from the queries on the left to the keys on the
    right, whose words stand beside the figure; the opacity of a line is its weight."""
    shown, kind = selection.map, KINDS[selection.map.kind]
    rows = max(len(shown.queries), len(shown.keys))
    figure = Figure(figsize=(WIDTH, ROW * rows), facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, WIDTH), ylim=(rows - 0.5, -0.5))
    axes.set_axis_off()
    title = f"{kind.title}, layer {selection.layer + 1} of {len(shown.weights)}"
    _write(axes, 0, -4.5, title, size=13)
    _write(axes, 0, -3.5, NOTE, FAINT, size=9)
    _write(axes, -LABEL_GAP, -2.2, "head", FAINT)
    for slot, head in enumerate(selection.heads):
        _write(axes, 0.35 * slot, -2.2, str(head + 1), line_colour(head))
        _draw_head(axes, selection, slot)
    _write(axes, -LABEL_GAP, -1, kind.queries, FAINT)
    for row, word in enumerate(shown.queries):
        _write(axes, -LABEL_GAP, row, shortened(word), INK if row in selection.queries else FAINT)
    _write(axes, WIDTH + LABEL_GAP, -1, kind.keys, FAINT)
    for row, word in enumerate(shown.keys):
        _write(axes, WIDTH + LABEL_GAP, row, shortened(word))
    return figure


def _draw_head(axes: Axes, selection: Selection, slot: int) -> None:
    """Draw the lines of a head beside those of the others between the same words."""
    head, heads = selection.heads[slot], len(selection.heads)
    beside = (slot - (heads - 1) / 2) * min(LARGEST_SPREAD, 0.5 / heads)
    weights = selection.map.weights[selection.layer, head].clamp(max=1)  # rounding errors
    places = (weights >= VISIBLE).nonzero().tolist()
    places = [(query, key) for query, key in places if query in selection.queries]
    lines = [((0, query + beside), (WIDTH, key + beside)) for query, key in places]
    colours = [to_rgba(line_colour(head), weights[place].item()) for place in places]
    axes.add_collection(
        LineCollection(lines, colors=colours, linewidths=1.6, gid=f"head-{head + 1}")
    )


def _write(
    axes: Axes, x: float, row: float, text: str, colour: str = INK, size: float = 10.5
) -> None:
    """Write a text with its middle at a row, to the right of x, or to the left of an x below 0."""
    side = "right" if x < 0 else "left"
    axes.text(x, row, text, size=size, color=colour, ha=side, va="center")


@in_our_style
def save_picture(figure: Figure, path: Path) -> None:
    """Write a figure in the format of the path's suffix, one of NO_DATE, whole or not at all, with
    the same bytes at any time; raises OSError if the file cannot be written."""
    suffix = path.suffix.lower()
    with whole_path(path) as part:
        figure.savefig(part, format=suffix[1:], metadata=NO_DATE[suffix])


POSITIONS = 100  # of a longer table, only these are drawn


def position_tables(transformer: Transformer | None) -> dict[str, Tensor]:
    """Return a model's positional encodings, each [at most POSITIONS, d_model], by the name to
    show: the sinusoids and, if positions are learned (row E), those of the encoder and of the
    decoder; without a model, those of the paper's base model."""
    if transformer is None:
        return {"sinusoids": sinusoids(POSITIONS, BASE.d_model)}
    stacks = {"encoder": transformer.encoder, "decoder": transformer.decoder}
    tables = {"sinusoids": sinusoids(POSITIONS, transformer.encoder.embedding.weight.size(1))}
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

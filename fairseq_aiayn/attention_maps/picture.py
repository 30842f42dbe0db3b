"""Words in a picture: their fonts, their widths, and the titles above them."""

from __future__ import annotations

import unicodedata
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.colors import LinearSegmentedColormap, to_rgba
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, fontManager, get_font
from matplotlib.patches import Rectangle
from torch import Tensor

from fairseq_aiayn.attention_maps.weights import Selection
from fairseq_aiayn.nn.layers import LearnedPositions, sinusoids
from fairseq_aiayn.nn.transformer import Transformer
from fairseq_aiayn.palette import line_colour
from fairseq_aiayn.text import whole_path

FAMILY = "DejaVu Sans"  # part of matplotlib
LAST_RESORT = "Last Resort High-Efficiency"  # part of matplotlib; has a box for every character
NOT_FOR_TEXT = ("cm", "STIX", "Last Resort", "DejaVu")
LONGEST_WORD = 32  # characters
DPI = 100  # for measuring widths
INK, FAINT = "#1b1b1f", "#77777f"

TITLES = {
    "encoder": "Encoder self-attention",
    "decoder": "Decoder self-attention",
    "cross": "Encoder-decoder attention",
}
# The captions of the words that attend and of the words that they attend to
COLUMNS = {
    "encoder": ("source", "attends to source"),
    "decoder": ("word being written", "attends to words read"),
    "cross": ("word being written", "attends to source"),
}


def title(selection: Selection) -> str:
    """Return the title of a picture: kind and layer."""
    shown = selection.map
    return f"{TITLES[shown.kind]}, layer {selection.layer + 1} of {shown.weights.size(0)}"


def label(word: str) -> str:
    """Return a word without control characters, which XML forbids, and cut if it is very long."""
    visible = "".join("\ufffd" if _is_not_text(c) else c for c in word)
    return visible if len(visible) <= LONGEST_WORD else f"{visible[: LONGEST_WORD - 1]}…"


def _is_not_text(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Cs") or character in "\ufffe\uffff"


def families(texts: Iterable[str]) -> list[str]:
    """Return installed fonts that together cover the texts' characters as far as possible."""
    missing = {c for text in texts for c in text} - _characters(_path(FAMILY))
    found = [FAMILY]
    for entry in fontManager.ttflist if missing else ():
        if entry.name.startswith(NOT_FOR_TEXT) or (entry.style, entry.weight) != ("normal", 400):
            continue
        here = missing & _characters(entry.fname)
        if here:
            found.append(entry.name)
            missing -= here
    return [*found, LAST_RESORT, "sans-serif"]


def undrawable(texts: Iterable[str]) -> str:
    """Return the characters that no installed font has; a PNG or PDF shows boxes for them."""
    shown = [label(text) for text in texts]
    have = frozenset().union(*(_characters(_path(name)) for name in families(shown)[:-2]))
    return "".join(sorted({c for text in shown for c in text} - have))


def _path(name: str) -> str:
    return findfont(FontProperties(family=name))


@cache
def _characters(path: str) -> frozenset[str]:
    return frozenset(map(chr, get_font(path).get_charmap()))


class Writer:
    """Writes words of `size` points, in fonts that have the characters of `texts`.

    Characters that no installed font has become boxes. matplotlib's libraqm shapes scripts and
    draws right-to-left words.
    """

    def __init__(self, texts: Iterable[str], size: float):
        self.size = size
        self.families = families(texts)
        self._font = FontProperties(family=self.families, size=size)
        self._renderer = FigureCanvasAgg(Figure(dpi=DPI)).get_renderer()

    def width(self, texts: Iterable[str]) -> float:
        """Return the width of the widest text in inches, or 0 without texts."""
        measure = self._renderer.get_text_width_height_descent
        widths = (measure(text, self._font, False)[0] for text in texts)
        return max(widths, default=0.0) / DPI

    def __call__(
        self,
        axes: Axes,
        x: float,
        y: float,
        text: str,
        align: str = "left",
        colour: str = INK,
        rotation: float = 0,
    ) -> None:
        """Write a text at x with its middle at y; a rotated text is centred at x, its top at y."""
        axes.text(
            *(x, y, text),
            fontproperties=self._font,
            color=colour,
            horizontalalignment="center" if rotation else align,
            verticalalignment="top" if rotation else "center",
            rotation=rotation,
            parse_math=False,  # a word may contain dollar signs
        )


# Write figures to files that appear whole or not at all.


FORMATS = (".png", ".svg", ".pdf")
DPI_OF_PICTURE_FILES = 160  # of PNG
# Text in SVG stays text: it can be searched, and the reader's fonts are used.
STYLE = {"svg.fonttype": "none", "svg.hashsalt": "fairseq_aiayn", "pdf.fonttype": 42}
NO_DATE = {".png": {}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}


def save_picture(figure: Figure, path: Path) -> None:
    """Write a figure in the format of the path's suffix, one of FORMATS.

    The same figure gives the same bytes at any time. Raises ValueError for another suffix, OSError
    if the file cannot be written.
    """
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        raise ValueError(
            f"{path}: a picture must be {', '.join(FORMATS)}, is {suffix or 'neither'}"
        )
    with whole_path(path) as part, matplotlib.rc_context(STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # drawn as a box
        figure.savefig(part, format=suffix[1:], dpi=DPI_OF_PICTURE_FILES, metadata=NO_DATE[suffix])


# A picture of equal panels in rows, with a title; coordinates are in inches.


MARGIN, HEAD = 0.3, 0.95  # inches: the margin around panels, the height of the heading
ACROSS = 4  # panels in a row
TITLE, NOTE = 13, 9  # points


@dataclass(frozen=True)
class Heading:
    """A picture's title, and below it, in smaller letters, a note on how to read it."""

    title: str
    note: str


class Panels:
    """A `figure`, made without pyplot and its global state, of `count` panels.

    Panels are `width` by `height` inches; `below` inches stay free below the last row.
    """

    def __init__(self, count: int, width: float, height: float, heading: Heading, below: float):
        self.width, self.height = width, height
        self.across = min(ACROSS, count)
        down = -(-count // self.across)
        title, note = Writer([heading.title], TITLE), Writer([heading.note], NOTE)
        panels = self.across * (width + MARGIN) - MARGIN
        text = max(title.width([heading.title]), note.width([heading.note]))
        self.size = (
            2 * MARGIN + max(panels, text),
            HEAD + down * (height + MARGIN) + below,
        )
        self.figure = Figure(figsize=self.size, facecolor="white")
        whole = self._add_axes(0, 0, *self.size)
        title(whole, MARGIN, 0.36, heading.title)
        note(whole, MARGIN, 0.62, heading.note, colour=FAINT)

    def axes(self, number: int) -> Axes:
        """Return the axes of a panel, counted by rows from the top left; y points down."""
        row, column = divmod(number, self.across)
        x = MARGIN + column * (self.width + MARGIN)
        y = HEAD + row * (self.height + MARGIN)
        return self._add_axes(x, y, self.width, self.height)

    def _add_axes(self, x: float, y: float, width: float, height: float) -> Axes:
        whole_width, whole_height = self.size
        place = (
            *(x / whole_width, 1 - (y + height) / whole_height),
            *(width / whole_width, height / whole_height),
        )
        axes = self.figure.add_axes(place, xlim=(0, width), ylim=(height, 0))
        axes.set_axis_off()
        return axes


# Attention weights as heat maps, one per head, with queries as rows and keys as columns.


SIDE = 4.0  # inches: the longer side of a map, if its cells can have the sizes below
SMALLEST, LARGEST = 0.09, 0.24  # inches: the side of a cell
POINTS, LARGEST_TEXT = 60, 10  # text size: points per inch of a cell's height, and its maximum
CAPTION, GAP = 0.28, 0.06  # inches: the caption above a map, the gap between map and words
SCALE = "white is weight 0, full colour 1"


def draw_heat_maps(selection: Selection) -> Figure:
    """Draw the selected heads side by side, each in a scale from white to the head's colour."""
    shown = selection.map
    rows, columns = [shown.queries[i] for i in selection.queries], shown.keys
    cell = min(LARGEST, max(SMALLEST, SIDE / max(len(rows), len(columns))))
    write = Writer(map(label, (*rows, *columns)), min(LARGEST_TEXT, POINTS * cell))
    left = write.width(map(label, rows)) + GAP
    width, height = left + cell * len(columns), CAPTION + cell * len(rows)
    below = write.width(map(label, columns)) + GAP
    queries, keys = COLUMNS[shown.kind]
    heading = Heading(title(selection), f"rows: {queries}; columns: {keys}; {SCALE}")
    panels = Panels(len(selection.heads), width, height, heading, below)
    last = len(selection.heads) - ACROSS
    for number, head in enumerate(selection.heads):
        axes = panels.axes(number)
        _draw_map(axes, selection, head, (left, cell))
        for row, word in enumerate(rows):
            write(axes, left - GAP, CAPTION + (row + 0.5) * cell, label(word), "right")
        for column, word in enumerate(columns if number >= last else ()):
            x = left + (column + 0.5) * cell
            write(axes, x, height + GAP, label(word), rotation=90)
    return panels.figure


def _draw_map(axes: Axes, selection: Selection, head: int, place: tuple[float, float]) -> None:
    """Draw a head's weights; `place` is the left edge and the side of a cell, in inches."""
    left, cell = place
    weights = selection.weights(head)
    right, bottom = left + cell * weights.size(1), CAPTION + cell * weights.size(0)
    colours = LinearSegmentedColormap.from_list("", ["white", line_colour(head)])
    limits = axes.axis()
    axes.imshow(
        weights.numpy(),
        cmap=colours,
        vmin=0,
        vmax=1,
        interpolation="none",
        extent=(left, right, bottom, CAPTION),
        aspect="auto",
    )
    axes.axis(limits)
    frame = Rectangle((left, CAPTION), right - left, bottom - CAPTION)
    frame.set(facecolor="none", edgecolor=FAINT, linewidth=0.6, clip_on=False)
    axes.add_patch(frame)
    name = f"head {head + 1}"
    Writer([name], 10)(axes, left, CAPTION / 2, name, colour=line_colour(head))


# Drawings as in Figures 3-5: lines between words, with opacity by weight and a colour per head.


INVISIBLE = 1 / 255  # an opacity below this changes no pixel
GAP_OF_LINE_DRAWING, SQUARE = 0.08, 0.12  # inches
NOTE_OF_LINE_DRAWING = "a line's opacity is the weight"
CAPTION_ROWS = 2.5  # above the words, for the heads and the columns' captions


@dataclass(frozen=True)
class Sizes:
    """The height of a row and the space between columns in inches, the text size in points."""

    row: float
    lines: float
    text: float


ONE_DRAWING = Sizes(row=0.25, lines=3.0, text=10.5)
SMALL_MULTIPLES = Sizes(row=0.19, lines=1.5, text=8)


def draw_lines(selection: Selection) -> Figure:
    """Draw all selected heads in one drawing: queries on the left, keys on the right."""
    return _draw([selection], ONE_DRAWING)


def draw_lines_by_head(selection: Selection) -> Figure:
    """Draw the selected heads in a small drawing each."""
    return _draw([replace(selection, heads=(head,)) for head in selection.heads], SMALL_MULTIPLES)


def _draw(drawings: Sequence[Selection], sizes: Sizes) -> Figure:
    shown = drawings[0].map
    columns = [[*map(label, words)] for words in (shown.queries, shown.keys)]
    for words, caption in zip(columns, COLUMNS[shown.kind], strict=True):
        words.append(caption)
    write = Writer(chain(*columns), sizes.text)
    left, right = map(write.width, columns)
    squares = SQUARE * len(drawings[0].heads) if drawings[0].isolated else 0.0
    ends = (left + GAP_OF_LINE_DRAWING, left + GAP_OF_LINE_DRAWING + sizes.lines)
    names = _name_places(drawings[0].heads, write)
    width = max(ends[1] + squares + 2 * GAP_OF_LINE_DRAWING + right, names[-1])
    height = sizes.row * (CAPTION_ROWS + max(len(shown.queries), len(shown.keys)))
    panels = Panels(
        len(drawings), width, height, Heading(title(drawings[0]), NOTE_OF_LINE_DRAWING), below=0.0
    )
    for number, drawing in enumerate(drawings):
        _Drawing(
            panels.axes(number),
            drawing,
            sizes,
            ends,
            ends[1] + squares + GAP_OF_LINE_DRAWING,
            write,
        ).draw()
    return panels.figure


@dataclass(frozen=True)
class _Drawing:
    """One panel, in inches: lines run between the two x of `ends`, keys start at x `keys_at`."""

    axes: Axes
    selection: Selection
    sizes: Sizes
    ends: tuple[float, float]
    keys_at: float
    write: Writer

    def draw(self) -> None:
        self._write_words()
        self._write_captions()
        self._name_heads()
        for slot, head in enumerate(self.selection.heads):
            self._draw_head(slot, head)

    def _y(self, row: int) -> float:
        return self.sizes.row * (CAPTION_ROWS + row + 0.5)

    def _write_words(self) -> None:
        shown = self.selection.map
        for row, word in enumerate(shown.queries):
            colour = INK if row in self.selection.queries else FAINT
            self.write(
                self.axes,
                self.ends[0] - GAP_OF_LINE_DRAWING,
                self._y(row),
                label(word),
                "right",
                colour,
            )
        for row, word in enumerate(shown.keys):
            self.write(self.axes, self.keys_at, self._y(row), label(word))

    def _write_captions(self) -> None:
        left, right = COLUMNS[self.selection.map.kind]
        y = self.sizes.row * (CAPTION_ROWS - 0.5)
        self.write(self.axes, self.ends[0] - GAP_OF_LINE_DRAWING, y, left, "right", FAINT)
        self.write(self.axes, self.keys_at, y, right, colour=FAINT)

    def _draw_head(self, slot: int, head: int) -> None:
        weights, colour = self.selection.weights(head), line_colour(head)
        lines, colours = [], []
        beside = self._spread(slot)
        for query, row in zip(self.selection.queries, weights.tolist(), strict=True):
            for key, weight in enumerate(row):
                if weight >= INVISIBLE:
                    start, end = self._y(query) + beside, self._y(key) + beside
                    lines.append([(self.ends[0], start), (self.ends[1], end)])
                    colours.append(to_rgba(colour, weight))
        drawn = LineCollection(lines, colors=colours, linewidths=0.15 * self.sizes.text)
        drawn.set_gid(f"head-{head + 1}")
        self.axes.add_collection(drawn)
        if self.selection.isolated:
            self._mark_keys(slot, colour, weights.amax(dim=0).tolist())

    def _spread(self, slot: int) -> float:
        """Return a head's offset from the middle of a word, so that lines do not overlap."""
        heads = len(self.selection.heads)
        return (slot - (heads - 1) / 2) * min(0.03, 0.5 * self.sizes.row / heads)

    def _mark_keys(self, slot: int, colour: str, weights: list[float]) -> None:
        """Draw a square beside each key, as opaque as the strongest line to it."""
        for key, weight in enumerate(weights):
            corner = (self.ends[1] + slot * SQUARE, self._y(key) - SQUARE / 2)
            colour_here = to_rgba(colour, weight)
            self.axes.add_patch(Rectangle(corner, SQUARE, SQUARE, color=colour_here, linewidth=0))

    def _name_heads(self) -> None:
        """Write the legend at the top: a square of each head's colour and its number."""
        y = 0.5 * self.sizes.row
        self.write(self.axes, 0, y, "head", colour=FAINT)
        heads = self.selection.heads
        for head, x in zip(heads, _name_places(heads, self.write), strict=False):
            box = Rectangle(
                (x, y - SQUARE / 2), SQUARE, SQUARE, color=line_colour(head), linewidth=0
            )
            self.axes.add_patch(box)
            self.write(self.axes, x + SQUARE + 0.5 * GAP_OF_LINE_DRAWING, y, str(head + 1))


def _name_places(heads: Sequence[int], write: Writer) -> list[float]:
    """Return the x of each head's square in the legend, and the x at which the legend ends."""
    first, step = (
        write.width(["head"]) + GAP_OF_LINE_DRAWING,
        SQUARE + write.width(["00"]) + GAP_OF_LINE_DRAWING,
    )
    return [first + step * slot for slot in range(len(heads) + 1)]


# Pictures of positional encodings and of their dot products (section 3.5).


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

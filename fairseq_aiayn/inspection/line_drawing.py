"""Drawings as in Figures 3-5: lines between words, with opacity by weight and a colour per head."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain

from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from fairseq_aiayn.inspection.labels import COLUMNS, FAINT, INK, Writer, label, title
from fairseq_aiayn.inspection.panels import Heading, Panels
from fairseq_aiayn.inspection.selection import Selection
from fairseq_aiayn.palette import line_colour

INVISIBLE = 1 / 255  # an opacity below this changes no pixel
GAP, SQUARE = 0.08, 0.12  # inches
NOTE = "a line's opacity is the weight"
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
    ends = (left + GAP, left + GAP + sizes.lines)
    names = _name_places(drawings[0].heads, write)
    width = max(ends[1] + squares + 2 * GAP + right, names[-1])
    height = sizes.row * (CAPTION_ROWS + max(len(shown.queries), len(shown.keys)))
    panels = Panels(len(drawings), width, height, Heading(title(drawings[0]), NOTE), below=0.0)
    for number, drawing in enumerate(drawings):
        _Drawing(panels.axes(number), drawing, sizes, ends, ends[1] + squares + GAP, write).draw()
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
            self.write(self.axes, self.ends[0] - GAP, self._y(row), label(word), "right", colour)
        for row, word in enumerate(shown.keys):
            self.write(self.axes, self.keys_at, self._y(row), label(word))

    def _write_captions(self) -> None:
        left, right = COLUMNS[self.selection.map.kind]
        y = self.sizes.row * (CAPTION_ROWS - 0.5)
        self.write(self.axes, self.ends[0] - GAP, y, left, "right", FAINT)
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
            self.write(self.axes, x + SQUARE + 0.5 * GAP, y, str(head + 1))


def _name_places(heads: Sequence[int], write: Writer) -> list[float]:
    """Return the x of each head's square in the legend, and the x at which the legend ends."""
    first, step = write.width(["head"]) + GAP, SQUARE + write.width(["00"]) + GAP
    return [first + step * slot for slot in range(len(heads) + 1)]

"""Attention weights as heat maps, one per head, with queries as rows and keys as columns."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from fairseq_aiayn.inspection.labels import COLUMNS, FAINT, Writer, label, title
from fairseq_aiayn.inspection.panels import ACROSS, Heading, Panels
from fairseq_aiayn.inspection.selection import Selection
from fairseq_aiayn.palette import line_colour

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

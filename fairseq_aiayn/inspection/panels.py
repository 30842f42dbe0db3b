"""A picture of equal panels in rows, with a title; coordinates are in inches."""

from __future__ import annotations

from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fairseq_aiayn.inspection.labels import FAINT, Writer

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

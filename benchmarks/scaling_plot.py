"""Draw the curves of scaling.py as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator
from scaling_curves import Times
from spreads import spread

from fairseq_aiayn.palette import LINE_COLOURS
from fairseq_aiayn.text import whole_path

COLUMNS = 3


def draw(path: Path, measured: Sequence[Times], title: str) -> None:
    """Write a PNG, whole or not at all: with a panel per curve and a line per side."""
    rows = -(-len(measured) // COLUMNS)
    figure = Figure(figsize=(13, 4.1 * rows))
    panels = figure.subplots(rows, COLUMNS, squeeze=False)
    for axes, times in zip(panels.flat, measured, strict=True):
        _panel(axes, times)
    figure.suptitle(title)
    figure.tight_layout()
    with whole_path(path) as part:
        figure.savefig(part, format="png", dpi=120)


def _panel(axes: Axes, times: Times) -> None:
    sizes = list(times.seconds)
    for name, colour in zip(times.seconds[sizes[0]], LINE_COLOURS, strict=False):
        spreads = [spread(times.seconds[size][name]) for size in sizes]
        medians = [each.median for each in spreads]
        below, above = [each.lowest for each in spreads], [each.highest for each in spreads]
        axes.plot(sizes, medians, color=colour, marker="o", label=name)
        axes.fill_between(sizes, below, above, color=colour, alpha=0.2, linewidth=0)
    axes.set(xscale="log", yscale="log", title=times.curve.title)
    axes.set(xlabel=times.curve.axis, ylabel="seconds")
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.grid(alpha=0.3)
    axes.legend()

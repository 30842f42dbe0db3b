"""Draw Table 1's picture from the figures of measure.py: one panel below another, for any screen.

Where two kinds of layers cost the same, one is dashed, so that both are seen:

    python docs/table1/draw.py docs/table1/table1.json docs/table1/table1.png
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

from matplotlib import style
from matplotlib.figure import Figure

from fairseq_aiayn.palette import line_colour

PANELS = {"GFLOPs": ("flops", 1e9), "milliseconds": ("seconds", 1e-3), "MiB": ("peak_bytes", 2**20)}
TWINS = ("the same", "convolutional, dilated")  # begin the names of kinds that cost as another one
WHOLE = {"linewidth": 2.5, "marker": "o", "markersize": 6}
DASHED = {**WHOLE, "linestyle": (0, (2, 2)), "markersize": 3, "zorder": 3}
SIZE = (4.2, 8.8)  # inches: 10 points are 12 pixels high where the picture is 380 pixels wide


def draw_costs(results: Mapping[str, dict]) -> Figure:
    """Draw what each kind of layer costs over the length n, both on logarithmic scales."""
    with style.context("default"):
        figure = Figure(figsize=SIZE, layout="constrained", facecolor="white")
        panels = figure.subplots(len(PANELS), 1, sharex=True)
        for axes, (title, (cost, unit)) in zip(panels, PANELS.items(), strict=True):
            for k, (name, result) in enumerate(results.items()):
                lengths = [*map(int, result["by length"])]
                costs = [each[cost] / unit for each in result["by length"].values()]
                look = DASHED if name.startswith(TWINS) else WHOLE
                axes.plot(lengths, costs, color=line_colour(k), label=name, **look)
            axes.set(title=title, xscale="log", yscale="log")
            axes.minorticks_off()
            axes.set_xticks(lengths, map(str, lengths))
        panels[-1].set_xlabel("n, positions")
        handles, names = panels[0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside upper left", frameon=False, handlelength=3.5)
        return figure


if __name__ == "__main__":
    figures, picture = map(Path, sys.argv[1:])
    results = json.loads(figures.read_text(encoding="utf-8"))
    draw_costs(results).savefig(picture, dpi=160, metadata={"Software": None})

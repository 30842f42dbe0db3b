"""Learning curves as SVG, in the text colour of the page around it."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

from fairseq_aiayn.palette import LINE_COLOURS, line_colour
from fairseq_aiayn.report.document import Block, Figure, Table
from fairseq_aiayn.runs.logs import SECONDS, Points

Curves = Mapping[str, Points]  # of a training, by their names

VALIDATIONS = 25  # of a run that are drawn and printed
POINTS = 200  # of a line; more make the page larger and not clearer
THIN = {"linewidth": 0.8, "alpha": 0.6}
THICK = {"linewidth": 2.0, "marker": "o", "markersize": 3}
LINES: dict[str, tuple[str, dict[str, Any]]] = {  # of each run: the panel and the look of a curve
    "loss": ("loss, bits a token", THIN),
    "development loss": ("loss, bits a token", THICK),
    "perplexity": ("perplexity", THIN),
    "development perplexity": ("perplexity", THICK),
    "learning rate": ("learning rate", {"linewidth": 1.5}),
    "development BLEU": ("development BLEU", THICK),
    "development F1": ("development F1", THICK),
}
DASHES = ("-", "--", ":", "-.")  # the ninth run has the first one's colour, and other dashes
INK = "#010203"  # stands for the page's own text colour
INKED = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color")
CURVE_STYLE: dict[Any, Any] = {  # of matplotlib
    **dict.fromkeys((*INKED, "grid.color"), INK),
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "report",  # the same curves make the same file
    "font.family": "sans-serif",
    "font.size": 10,
    "grid.alpha": 0.15,
    "axes.grid": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "text.parse_math": False,  # no name of a run is a formula
}
CAPTION = (
    "Loss (label-smoothed), perplexity and learning rate against updates and against wall "
    "time; training is thin, validation thick. The learning rate is as fairseq logs it: after "
    "an update, that of the next."
)
WITHOUT_CURVES = "The curves are left out: drawing them needs matplotlib (pip install matplotlib)."


def curves_blocks(runs: Mapping[str, Curves]) -> list[Block]:
    """Return the curves of all runs with a table of validations, which stands alone where there is
    no matplotlib; nothing if no run has a curve."""
    if not any(curves["loss"] for curves in runs.values()):
        return []
    if not find_spec("matplotlib"):
        return [WITHOUT_CURVES, _validations(runs)]
    return [Figure(draw_learning_curves(runs), CAPTION, _validations(runs))]


def _validations(runs: Mapping[str, Curves]) -> Table:
    """Return a table of the validations that are drawn."""
    names = [name for name, (_, look) in LINES.items() if look is THICK]
    names = [name for name in names if any(curves[name] for curves in runs.values())]
    rows = []
    for run, curves in runs.items():
        updates = _thinned([*curves["development loss"]], VALIDATIONS)
        for update, minutes in zip(updates, _minutes(curves, updates), strict=True):
            values = (curves[name].get(update) for name in names)
            cells = ("" if value is None else f"{value:.2f}" for value in values)
            rows.append([run, f"{update:,}", f"{minutes:.1f}", *cells])
    return Table(["run", "updates", "minutes", *names], rows)


def _minutes(curves: Curves, updates: Sequence[int]) -> np.ndarray:
    """Return when updates were done."""
    known = {0: 0.0, **curves[SECONDS]}
    return np.interp(updates, [*known], [*known.values()]) / 60


def _thinned(values: Sequence, most: int) -> Sequence:
    """Return about `most` of the values or fewer, with the last one."""
    step = max(1, math.ceil(len(values) / most))
    return values[::-step][::-1]


def draw_learning_curves(runs: Mapping[str, Curves]) -> str:
    """Draw the curves of LINES that any run has against updates and time."""
    from matplotlib import style
    from matplotlib.figure import Figure as Drawing
    from matplotlib.ticker import LogFormatter

    drawn = {name: LINES[name] for name in LINES if any(curves[name] for curves in runs.values())}
    panels = list(dict.fromkeys(panel for panel, _ in drawn.values()))
    handles = []
    with style.context(["default", CURVE_STYLE]):  # whatever the user's matplotlibrc says
        figure = Drawing(figsize=(9.5, 3 * len(panels)), layout="constrained")
        axes = figure.subplots(len(panels), 2, sharex="col", sharey="row", squeeze=False)
        for k, curves in enumerate(runs.values()):
            dashes = DASHES[k // len(LINE_COLOURS) % len(DASHES)]
            for name, (panel, look) in drawn.items():
                updates = _thinned([*curves[name]], VALIDATIONS if look is THICK else POINTS)
                values = [curves[name][update] for update in updates]
                look = {"color": line_colour(k), "linestyle": dashes} | look
                row = axes[panels.index(panel)]
                (line,) = row[0].plot(updates, values, **look)
                row[1].plot(_minutes(curves, updates), values, **look)
            handles.append(line)
        for row, panel in zip(axes, panels, strict=True):
            row[0].set_ylabel(panel)
            if panel == "perplexity":
                row[0].set_yscale("log")
                row[0].yaxis.set(major_formatter=LogFormatter(), minor_formatter=LogFormatter())
        axes[-1, 0].set_xlabel("updates")
        axes[-1, 1].set_xlabel("minutes")
        names = [name if len(name) <= 40 else f"{name[:39]}…" for name in runs]
        figure.legend(handles, names, loc="outside upper center", ncols=min(len(names), 3))
        return _svg(figure)


def _svg(figure: Any) -> str:
    """Return a figure as an element of a page, with the page's text colour."""
    file = io.StringIO()
    # The date and the program's name would make every file another one.
    figure.savefig(file, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    svg = file.getvalue()
    return svg[svg.index("<svg") :].replace(INK, "currentColor")

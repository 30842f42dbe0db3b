"""Learning curves, and others, as SVG that takes the colours of the page around it."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fairseq_aiayn.evaluation.bleu_by_length import LengthClass
from fairseq_aiayn.evaluation.learning_curves import Curve, LearningCurves
from fairseq_aiayn.inspection.head_colours import head_colour

POINTS = 300  # of a curve that are drawn; more make the page larger and not clearer
INK = "#010203"  # stands for the page's own text colour
STYLE = {
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "report",  # the same curves make the same file
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "grid.color": INK,
    "grid.alpha": 0.15,
    "axes.grid": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def draw_learning_curves(curves: Mapping[str, LearningCurves]) -> str:
    """Draw loss, perplexity and learning rate of every run, against updates and against time.

    Training is thin, validation thick with dots.
    """
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(9.5, 9), layout="constrained")
        axes = figure.subplots(3, 2, sharex="col", sharey="row")
        for place, (name, curve) in enumerate(curves.items()):
            colour = head_colour(place)
            for column, unit in enumerate((None, 60.0)):
                _draw_losses(axes[0, column], curve, "loss", unit, colour, name)
                _draw_losses(axes[1, column], curve, "perplexity", unit, colour, name)
                x = _x(curve.training, unit)
                axes[2, column].plot(_thin(x), _thin(curve.rate), color=colour, linewidth=1.5)
        for row, label in enumerate(("loss, bits a token", "perplexity", "learning rate")):
            axes[row, 0].set_ylabel(label)
        axes[1, 0].set_yscale("log")
        axes[2, 0].set_xlabel("updates")
        axes[2, 1].set_xlabel("minutes in updates")
        axes[0, 1].legend(frameon=False)
        return _svg(figure, "curves")


def draw_bleu_by_length(classes: Sequence[LengthClass]) -> str:
    """Draw sacreBLEU of every run in each class of source lengths."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(9.5, 3.6), layout="constrained")
        axes = figure.subplots()
        places = range(len(classes))
        for k, name in enumerate(classes[0].bleu):
            scores = [one.bleu[name] for one in classes]
            axes.plot(places, scores, "o-", color=head_colour(k), label=name)
        axes.set_xticks(places, [length_range(one) for one in classes])
        axes.set_xlabel("words of the source")
        axes.set_ylabel("sacreBLEU")
        axes.set_ylim(bottom=0)
        axes.legend(frameon=False)
        return _svg(figure, "lengths")


def length_range(one: LengthClass) -> str:
    """Say which lengths a class has: 5–9."""
    both = (one.shortest, one.longest)
    return f"{both[0]}–{both[1]}" if both[0] < both[1] else str(both[0])


def _draw_losses(
    axes: Axes, curves: LearningCurves, what: str, unit: float | None, colour: str, name: str
) -> None:
    thin = {"linewidth": 0.8, "alpha": 0.6, "label": f"{name}, training"}
    thick = {"linewidth": 2, "marker": "o", "markersize": 3, "label": f"{name}, validation"}
    for curve, look in ((curves.training, thin), (curves.validation, thick)):
        axes.plot(_thin(_x(curve, unit)), _thin(getattr(curve, what)), color=colour, **look)


def _x(curve: Curve, unit: float | None) -> Sequence[float]:
    """Updates, or time in a unit of so many seconds."""
    return curve.updates if unit is None else [seconds / unit for seconds in curve.seconds]


def _thin(values: Sequence[float]) -> Sequence[float]:
    """At most about POINTS of them, the last one included."""
    step = -(-len(values) // POINTS)
    return values if step <= 1 else values[::-step][::-1]


def _svg(figure: Figure, name: str) -> str:
    """Write a figure as an element of a page: no header, ids of its own, the page's ink."""
    file = io.StringIO()
    # The date and the program's name would make every file another one.
    figure.savefig(file, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    svg = file.getvalue()
    svg = svg[svg.index("<svg") :].replace(INK, "currentColor")
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    return re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{name}-", svg)

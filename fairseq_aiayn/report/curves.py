"""Learning curves as SVG, in the text colour of the page around it."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
from matplotlib.figure import Figure as Drawing

from fairseq_aiayn.palette import LINE_COLOURS, line_colour
from fairseq_aiayn.report.document import Block, Figure, Table
from fairseq_aiayn.runs.logs import Curve, LearningCurves

VALIDATIONS = 25  # of a run that are printed
POINTS = 1_800  # of all lines of a panel together; more make the page larger and not clearer
DOTTED = 40  # points of a line that are few enough for a dot on each
DASHES = ("-", "--", ":", "-.")  # the ninth run has the first one's colour, and other dashes
INK = "#010203"  # stands for the page's own text colour
INKED = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color")
STYLE: dict[Any, Any] = {  # of matplotlib
    **dict.fromkeys((*INKED, "grid.color"), INK),
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "report",  # the same curves make the same file
    "font.family": "sans-serif",
    "font.size": 10,
    "grid.alpha": 0.15,
    "axes.grid": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
CAPTION = (
    "Loss (label-smoothed), perplexity and learning rate against updates and against wall "
    "time; training is thin, validation thick. The learning rate is as fairseq logs it: after "
    "an update, that of the next."
)


def curves_blocks(curves: Mapping[str, LearningCurves]) -> list[Block]:
    """Return the curves of all runs with a table of validations; nothing if no run has a curve."""
    if not any(one.training.updates for one in curves.values()):
        return []
    return [
        Figure(draw_learning_curves(curves), CAPTION, _validations(curves)),
        *(
            f"{name} diverged: from update {both.training.diverged:,} on its loss is none."
            for name, both in curves.items()
            if both.training.diverged is not None
        ),
    ]


def _measures(curves: Mapping[str, LearningCurves]) -> list[str]:
    """Return what the development scores of the runs are."""
    return list(dict.fromkeys(one.measure for one in curves.values() if one.measure))


def _validations(curves: Mapping[str, LearningCurves]) -> Table:
    """Return a table of at most VALIDATIONS of each run, with its last one."""
    measures = _measures(curves)
    header = ["run", "updates", "minutes", "validation loss", "validation perplexity"]
    header += [f"development {measure}" for measure in measures]
    rows = [
        [
            name,
            f"{both.validation.updates[k]:,}",
            f"{both.validation.seconds[k] / 60:.1f}",
            f"{both.validation.loss[k]:.3f}",
            f"{both.validation.perplexity[k]:.2f}",
            *(f"{both.score[k]:.2f}" if both.measure == measure else "" for measure in measures),
        ]
        for name, both in curves.items()
        for k in _thinned(range(len(both.validation.updates)), VALIDATIONS)
    ]
    return Table(header, rows)


def _thinned(values: Sequence, most: int) -> Sequence:
    """Return about `most` of the values or fewer, with the last one."""
    step = -(-len(values) // max(2, most)) or 1
    return values[::-step][::-1]


def draw_learning_curves(curves: Mapping[str, LearningCurves]) -> str:
    """Draw loss, perplexity, learning rate and development score against updates and time.

    Training is thin, validation thick. Without a development score there is no panel of it.
    """
    measures = _measures(curves)
    labels = ["loss, bits a token", "perplexity", "learning rate"]
    labels += [f"development {' and '.join(measures)}"] if measures else []
    most = POINTS // (2 * len(curves))
    with matplotlib.rc_context(STYLE):
        figure = Drawing(figsize=(9.5, 3 * len(labels)), layout="constrained")
        axes = figure.subplots(len(labels), 2, sharex="col", sharey="row")
        for k, both in enumerate(curves.values()):
            dashes = DASHES[k // len(LINE_COLOURS) % len(DASHES)]
            for row, curve, values, look in _lines(both):
                look = {"color": line_colour(k), "linestyle": dashes, "linewidth": 1.5} | look
                minutes = [seconds / 60 for seconds in curve.seconds]
                for column, x in enumerate((curve.updates, minutes)):
                    axes[row, column].plot(_thinned(x, most), _thinned(values, most), **look)
        for row, label in enumerate(labels):
            axes[row, 0].set_ylabel(label)
        axes[1, 0].set_yscale("log")
        axes[-1, 0].set_xlabel("updates")
        axes[-1, 1].set_xlabel("minutes")
        names = [name if len(name) <= 40 else f"{name[:39]}…" for name in curves]
        lines, columns = axes[2, 0].lines, min(len(names), 3)
        legend = figure.legend(
            lines, names, loc="outside upper center", ncols=columns, frameon=False
        )
        for text in legend.get_texts():
            text.set_parse_math(False)  # no name of a run is a formula
        return _svg(figure)


def _lines(both: LearningCurves) -> list[tuple[int, Curve, Sequence[float], dict[str, Any]]]:
    """Return the lines of a run: the row of the panel, whose updates, the values, and the look."""
    training, validation = both.training, both.validation
    thin: dict[str, Any] = {"linewidth": 0.8, "alpha": 0.6}
    few = len(validation.updates) <= DOTTED
    thick = {"linewidth": 2.0} | ({"marker": "o", "markersize": 3} if few else {})
    return [
        (0, training, training.loss, thin),
        (1, training, training.perplexity, thin),
        (0, validation, validation.loss, thick),
        (1, validation, validation.perplexity, thick),
        (2, training, both.rate, {}),
        *([(3, validation, both.score, {})] if both.score else []),
    ]


def _svg(figure: Drawing) -> str:
    """Return a figure as an element of a page, with the page's text colour."""
    file = io.StringIO()
    # The date and the program's name would make every file another one.
    figure.savefig(file, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    svg = file.getvalue()
    return svg[svg.index("<svg") :].replace(INK, "currentColor")

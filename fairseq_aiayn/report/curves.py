"""Learning curves as SVG, in the text colour of the page around it."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing

from fairseq_aiayn.palette import LINE_COLOURS, line_colour
from fairseq_aiayn.report.document import Block, Figure, Paragraph, Table
from fairseq_aiayn.runs.logs import Curve, LearningCurves

VALIDATIONS = 25  # of a run that are printed
POINTS = 1_800  # of all lines of a panel together; more make the page larger and not clearer
DOTTED = 40  # points of a line that are few enough for a dot on each
Look = dict[str, Any]  # of a line
THIN: Look = {"linewidth": 0.8, "alpha": 0.6}
THICK: Look = {"linewidth": 2.0}
DOTS: Look = {"marker": "o", "markersize": 3}
DASHES = ("-", "--", ":", "-.")  # the ninth run has the first one's colour, and other dashes
LONGEST_NAME = 40  # characters
INK = "#010203"  # stands for the page's own text colour
STYLE: dict[Any, Any] = {  # of matplotlib
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


def curves_blocks(curves: Mapping[str, LearningCurves]) -> list[Block]:
    """Return the curves of all runs with a table of validations; nothing if no run has a curve."""
    if not any(one.training.updates for one in curves.values()):
        return []
    caption = (
        "Loss (label-smoothed), perplexity and learning rate against updates and against wall "
        "time; training is thin, validation thick. The learning rate is as fairseq logs it: after "
        "an update, that of the next."
    )
    blocks: list[Block] = [Figure(draw_learning_curves(curves), caption, _validations(curves))]
    blocks += [
        Paragraph(f"{name} diverged: from update {both.training.diverged:,} on its loss is none.")
        for name, both in curves.items()
        if both.training.diverged is not None
    ]
    return blocks


def _validations(curves: Mapping[str, LearningCurves]) -> Table:
    """Return a table of at most VALIDATIONS of each run, with its last one."""
    measures = _measures(curves)
    header = ["run", "updates", "minutes", "validation loss", "validation perplexity"]
    header += [f"development {measure}" for measure in measures]
    rows = []
    for name, both in curves.items():
        curve = both.validation
        every = -(-len(curve.updates) // VALIDATIONS) or 1
        for place in range(len(curve.updates))[::-every][::-1]:
            scores = [
                f"{both.score[place]:.2f}" if both.measure == measure else ""
                for measure in measures
            ]
            updates, minutes = f"{curve.updates[place]:,}", f"{curve.seconds[place] / 60:.1f}"
            loss, perplexity = f"{curve.loss[place]:.3f}", f"{curve.perplexity[place]:.2f}"
            rows.append([name, updates, minutes, loss, perplexity, *scores])
    return Table(header, rows)


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
        for place, both in enumerate(curves.values()):
            for row, curve, values, look in _lines(both):
                minutes = [seconds / 60 for seconds in curve.seconds]
                for column, x in enumerate((curve.updates, minutes)):
                    line = _look(place) | look
                    axes[row, column].plot(_thin(x, most), _thin(values, most), **line)
        for row, label in enumerate(labels):
            axes[row, 0].set_ylabel(label)
        axes[1, 0].set_yscale("log")
        axes[-1, 0].set_xlabel("updates")
        axes[-1, 1].set_xlabel("minutes")
        _name_lines(figure, axes[2, 0], list(curves))
        return _svg(figure)


def _lines(both: LearningCurves) -> Iterator[tuple[int, Curve, Sequence[float], Look]]:
    """Yield the lines of a run: the row of the panel, whose updates, the values, and the look."""
    for curve, look in ((both.training, THIN), (both.validation, THICK)):
        dots = DOTS if look is THICK and len(curve.updates) <= DOTTED else {}
        yield 0, curve, curve.loss, look | dots
        yield 1, curve, curve.perplexity, look | dots
    yield 2, both.training, both.rate, {}
    if both.score:
        yield 3, both.validation, both.score, {}


def _measures(curves: Mapping[str, LearningCurves]) -> list[str]:
    """Return what the development scores of the runs are."""
    return list(dict.fromkeys(one.measure for one in curves.values() if one.measure))


def _look(place: int) -> Look:
    """Return the colour and the dashes of a run, by its place among the runs."""
    dashes = DASHES[place // len(LINE_COLOURS) % len(DASHES)]
    return {"color": line_colour(place), "linestyle": dashes, "linewidth": 1.5}


def _name_lines(figure: Drawing, axes: Axes, names: Sequence[str]) -> None:
    """Write the names of the lines above the figure; no character of a name is markup."""
    columns = min(len(names), 3)
    legend = figure.legend(
        axes.lines, map(str, range(len(names))), loc="outside upper center", ncols=columns
    )
    legend.set_frame_on(False)
    for text, name in zip(legend.get_texts(), names, strict=True):
        text.set_parse_math(False)
        text.set_text(name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…")


def _thin(values: Sequence[float], most: int) -> Sequence[float]:
    """Return at most about `most` of the values, with the last one."""
    step = -(-len(values) // max(2, most))
    return values if step <= 1 else values[::-step][::-1]


def _svg(figure: Drawing) -> str:
    """Return a figure as an element of a page, with the page's text colour."""
    file = io.StringIO()
    # The date and the program's name would make every file another one.
    figure.savefig(file, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    svg = file.getvalue()
    return svg[svg.index("<svg") :].replace(INK, "currentColor")

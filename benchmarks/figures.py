"""Figures of alternating measurements: medians with interquartile ranges, as a table."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fairseq_aiayn.console import aligned_lines, one_line
from fairseq_aiayn.files import read_json
from fairseq_aiayn.report.document import Table, blocks_as_markdown

STEADY = 0.05  # of the median: a wider interquartile range says that the machine was not idle


@dataclass(frozen=True)
class Spread:
    """The median of several values and their quartiles."""

    median: float
    lower: float
    upper: float
    count: int

    @property
    def is_steady(self) -> bool:
        """Return whether the interquartile range is at most STEADY of the median."""
        return self.upper - self.lower <= STEADY * abs(self.median)

    def __str__(self) -> str:
        return f"{number(self.median)} ({number(self.lower)}–{number(self.upper)})"


def spread(values: Sequence[float]) -> Spread:
    """Return median and quartiles of the values, to six digits."""
    quartiles = statistics.quantiles(values, n=4, method="inclusive")
    lower, median, upper = (float(f"{value:.6g}") for value in quartiles)
    return Spread(median, lower, upper, len(values))


def number(value: float) -> str:
    """Return three digits or more: 0.123, 12.3, 1,234."""
    size = abs(value)
    return f"{value:,.0f}" if size >= 100 else f"{value:#.3g}" if size >= 1 else f"{value:.3g}"


@dataclass(frozen=True)
class Figure:
    """What was measured, of what, and its values in the order of the turns: a ratio has two
    sides."""

    name: str
    subject: str  # configuration and precision
    unit: str  # what is divided by what, or s
    value: Spread


def ratio(
    name: str, subject: str, sides: tuple[str, str], ours: Sequence[float], other: Sequence[float]
) -> Figure:
    """Divide the values of one side by those that the other side had in the same turn."""
    values = [one / two for one, two in zip(ours, other, strict=True)]
    return Figure(name, subject, " ÷ ".join(sides), spread(values))


def table(figures: Sequence[Figure]) -> str:
    """Return one line for each figure, and a note on those that are not steady."""
    head = ["", "", "", "median (quartiles)", "turns", ""]
    rows = [
        [
            *(figure.name, figure.subject, figure.unit, str(figure.value)),
            str(figure.value.count),
            "" if figure.value.is_steady else "unsteady",
        ]
        for figure in figures
    ]
    unsteady = sum(not figure.value.is_steady for figure in figures)
    note = f"{unsteady} of {len(figures)} are unsteady: their quartiles are further apart than "
    note += f"{STEADY:.0%} of the median. Measure again on an idle machine."
    return "\n".join([*aligned_lines([head, *rows]), *(["", note] if unsteady else [])])


def side_by_side(files: Sequence[Path]) -> str:
    """Return the figures of result files in Markdown, with a column for each file; raises
    ValueError for another file."""
    columns: list[dict[str, str]] = [{} for _ in files]
    for path, column in zip(files, columns, strict=True):
        try:
            for each in read_json(path)["found"]:
                name = ", ".join(filter(None, (each["name"], each["subject"], each["unit"])))
                column[name] = str(Spread(**each["value"]))
        except (KeyError, TypeError) as error:
            raise ValueError(f"{path}: expected the results of a benchmark") from error
    names = dict.fromkeys(name for column in columns for name in column)
    lines = [[name, *(column.get(name, "") for column in columns)] for name in names]
    header = ["median (quartiles)", *(path.name for path in files)]
    return blocks_as_markdown([Table(header, lines)], one_line)

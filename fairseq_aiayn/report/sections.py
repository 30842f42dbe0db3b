"""Sections that pages on translations and on parsers have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fairseq_aiayn.report.curve_drawing import draw_learning_curves
from fairseq_aiayn.report.document import Block, Figure, Folded, Paragraph, Section, Table
from fairseq_aiayn.report.provenance import facts
from fairseq_aiayn.report.system_differences import SYSTEM_DIFFERENCES
from fairseq_aiayn.runs.differences import Difference
from fairseq_aiayn.runs.learning_curves import LearningCurves
from fairseq_aiayn.runs.run_directory import TrainedRun
from fairseq_aiayn.runs.seeds import OverSeeds, seeds_cells

VALIDATIONS = 25  # of a run that are printed


def cells_table(cells: Sequence[Sequence[str]], left: int = 1) -> Table:
    """Make a table of cells whose first row is the header."""
    return Table(cells[0], cells[1:], left)


def paragraphs(lines: Sequence[str]) -> list[Block]:
    """Make a paragraph of each line that says something."""
    return [Paragraph(line.removeprefix("- ")) for line in lines if line]


def seeds_section(groups: Sequence[OverSeeds]) -> list[Section]:
    """Mean ± deviation of runs that differ in their seed alone; nothing where none do."""
    if not groups:
        return []
    return [Section("Over seeds", [cells_table(seeds_cells(groups))])]


def differences_section(
    names: Sequence[str], systems: set[str], found: Sequence[Difference]
) -> list[Section]:
    """In what the runs were made differently, and what differs in the systems' own code."""
    blocks: list[Block] = []
    if len(names) > 1:
        text = (
            "All that the runs were asked for differently, also where one of them has no use for "
            "it. An empty cell: not given."
        )
        rows = [[one.where, one.what, *one.values] for one in found]
        blocks += [Paragraph(text), Table(["where", "what", *names], rows, left=len(names) + 2)]
    if "stock" in systems:
        text = "What stock fairseq's own code does otherwise, whatever the options:"
        rows = [[one.what, one.paper, one.stock, one.so] for one in SYSTEM_DIFFERENCES]
        header = ["", "the paper, and aiayn", "stock fairseq (0.12.3.1)", "so"]
        blocks += [Paragraph(text), Table(header, rows, left=4)]
    return [Section("What differs", blocks)] if blocks else []


def curves_section(curves: Mapping[str, LearningCurves]) -> list[Section]:
    """Curves of all runs, and their validations as a table; nothing where all were too short."""
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
    return [Section("Learning curves", blocks)]


def _validations(curves: Mapping[str, LearningCurves]) -> Table:
    """At most VALIDATIONS of each run, the last one included."""
    measures = list(dict.fromkeys(one.measure for one in curves.values() if one.measure))
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
            minutes = curve.seconds[place] / 60
            figures = [
                f"{minutes:.1f}",
                f"{curve.loss[place]:.3f}",
                f"{curve.perplexity[place]:.2f}",
            ]
            rows.append([name, f"{curve.updates[place]:,}", *figures, *scores])
    return Table(header, rows)


def making_section(runs: Sequence[TrainedRun]) -> Section:
    """How each run was made, with its commands."""
    blocks = [Folded(f"How {run.name} was made", facts(run), run.settings.commands) for run in runs]
    return Section("How the runs were made", blocks)

"""Blocks and sections that translation models and parsers have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from fairseq_aiayn.regime.stock_differences import STOCK_DIFFERENCES
from fairseq_aiayn.report.document import Block, Paragraph, Section, Table
from fairseq_aiayn.report.provenance import clock
from fairseq_aiayn.runs.differences import Difference
from fairseq_aiayn.runs.run_directory import AnyRun, TrainedRun
from fairseq_aiayn.runs.seeds import OverSeeds


def _count(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


TRAINING_CELLS: dict[str, Callable[[TrainedRun], str]] = {
    "parameters": lambda run: f"{run.training.parameters:,}",
    "updates": lambda run: f"{run.training.updates:,}",
    "target tokens/s in training": lambda run: f"{run.training.tokens_per_second:,.0f}",
    "seconds of training": lambda run: f"{run.training.seconds:,.0f}",
    "wall time of training": lambda run: clock(run.training.wall_seconds),
    "peak memory of training, MiB": lambda run: _count(run.training.peak_memory),
    "peak GPU memory of training, MiB": lambda run: _count(run.training.peak_gpu_memory),
    "development perplexity": lambda run: f"{run.dev_perplexity:.2f}",
}


def column_per_run(runs: Sequence[AnyRun], lines: Mapping[str, Callable[[AnyRun], str]]) -> Table:
    """Return a table of what `lines` say of each run, without lines that are empty for all."""
    rows = [[label, *map(cell, runs)] for label, cell in lines.items()]
    return Table(["", *(run.name for run in runs)], [row for row in rows if any(row[1:])])


def over_seeds_blocks(groups: Sequence[OverSeeds]) -> list[Block]:
    """Return a table with mean ± deviation of each group; nothing if there are no groups."""
    if not groups:
        return []
    rows = []
    for group in groups:
        figures = zip(group.means, group.deviations, strict=True)
        means = [f"{mean:.2f} ± {deviation:.2f}" for mean, deviation in figures]
        rows.append([", ".join(group.runs), *means])
    return [Table(["mean ± standard deviation of the runs", *groups[0].what], rows)]


def over_seeds_section(groups: Sequence[OverSeeds]) -> list[Section]:
    """Return the section on runs that differ only in their seed; nothing if no runs do."""
    return [Section("Over seeds", over_seeds_blocks(groups))] if groups else []


def differences_section(
    names: Sequence[str], systems: set[str], found: Sequence[Difference]
) -> list[Section]:
    """Return what the runs were asked for differently, and what stock fairseq does differently."""
    blocks: list[Block] = []
    if len(names) > 1:
        text = (
            "Every fact and option in which the runs differ, even if one of the systems does not "
            "use it. An empty cell means that it was not given."
        )
        rows = [[one.where, one.what, *one.values] for one in found]
        blocks += [Paragraph(text), Table(["where", "what", *names], rows, left=len(names) + 2)]
    if "stock" in systems:
        text = "What stock fairseq's code does differently, whatever the options:"
        rows = [[one.what, one.paper, one.stock, one.consequence] for one in STOCK_DIFFERENCES]
        header = ["", "the paper, and aiayn", "stock fairseq (0.12.3.1)", "consequence"]
        blocks += [Paragraph(text), Table(header, rows, left=4)]
    return [Section("What differs", blocks)] if blocks else []

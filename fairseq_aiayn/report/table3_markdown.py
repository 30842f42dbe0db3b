"""Table 3 as Markdown, the paper's figures beside what runs measured, and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from statistics import fmean, stdev

from fairseq_aiayn.files.markdown_table import aligned_table, as_text
from fairseq_aiayn.paper import BASE, TABLE_3
from fairseq_aiayn.report.provenance import how_made, machines, signatures
from fairseq_aiayn.report.table3 import (
    Seeds,
    Table3,
    Unfinished,
    group_by_row,
)
from fairseq_aiayn.runs.paper_conditions import TABLE_3_CONDITIONS, differences
from fairseq_aiayn.runs.translation_run import Run, run_from_json

KIND = "table3"  # of results, in JSON


def _cell(field: str) -> Callable[[Seeds], str]:
    """A cell of the paper's table, which is empty where a row is as base."""

    def cell(seeds: Seeds) -> str:
        value = getattr(seeds.row, field)
        return "" if seeds.row is not BASE and value == getattr(BASE, field) else str(value)

    return cell


def _printed(field: str, digits: int) -> Callable[[Seeds], str]:
    """A result that the paper prints for some rows."""

    def cell(seeds: Seeds) -> str:
        value = getattr(seeds.row.published, field)
        return "" if value is None else f"{value:.{digits}f}"

    return cell


def _measured(value: Callable[[Run], float], digits: int) -> Callable[[Seeds], str]:
    """Mean over the seeds, with their sample standard deviation where there are several."""

    def cell(seeds: Seeds) -> str:
        values = [value(run) for run in seeds.runs]
        spread = f" ± {stdev(values):.{digits}f}" if len(values) > 1 else ""
        return f"{fmean(values):.{digits}f}{spread}"

    return cell


COLUMNS: dict[str, Callable[[Seeds], str]] = {
    "row": lambda seeds: seeds.row.name,
    **{symbol: _cell(symbol) for symbol in ("N", "d_model", "d_ff", "h", "d_k", "d_v", "P_drop")},
    "ε_ls": _cell("epsilon_ls"),
    "updates": lambda seeds: f"{seeds.runs[0].training.updates:,}",
    "PPL, paper": _printed("ppl", 2),
    "PPL, ours": _measured(lambda run: run.dev_perplexity, 2),
    "BLEU, paper": _printed("bleu", 1),
    "BLEU, ours": _measured(lambda run: run.bleu["score"], 2),
    "sacreBLEU, ours": _measured(lambda run: run.sacrebleu["score"], 2),
    "10⁶ params, paper": _printed("parameters", 0),
    "10⁶ params, ours": lambda seeds: f"{seeds.runs[0].training.parameters / 1e6:.1f}",
    "seeds": lambda seeds: str(len(seeds.runs)),
}


def markdown(table: Table3) -> str:
    """Return the table in the paper's order of rows, and what must be known to read it."""
    groups = group_by_row(table.runs)
    systems = list(dict.fromkeys(seeds.system for seeds in groups))
    cells = [list(COLUMNS), *([cell(seeds) for cell in COLUMNS.values()] for seeds in groups)]
    if len(systems) > 1:
        column = ["system", *(seeds.system for seeds in groups)]
        cells = [[row[0], system, *row[1:]] for row, system in zip(cells, column, strict=True)]
    lines = aligned_table(cells, left=2 if len(systems) > 1 else 1)
    if table.runs:
        lines += ["", *signatures(table.runs[0]), "", *machines(table.runs)]
        lines += differences(table.runs, TABLE_3_CONDITIONS)
    if table.unfinished:
        lines += ["", "Not finished:", ""]
        lines += [as_text(f"- {run.name}: {run.reason}") for run in table.unfinished]
    for system in systems:
        finished = {seeds.row.name for seeds in groups if seeds.system == system}
        if missing := [row.name for row in TABLE_3 if row.name not in finished]:
            lines += ["", f"Rows without a finished run of {system}: {', '.join(missing)}"]
    return "\n".join(lines) + "\n"


def report(table: Table3) -> str:
    """Return the table, and for each run a section on how it was made."""
    runs = (run for seeds in group_by_row(table.runs) for run in seeds.runs)
    return markdown(table) + "".join("\n".join(["", *how_made(run)]) + "\n" for run in runs)


def as_json(table: Table3) -> dict:
    """Return all of a table, ready for json.dump."""
    return {"kind": KIND, **asdict(table)}


def from_json(content: Mapping, where: object) -> Table3:
    """Make a Table3 of what `as_json` returned; KeyError or TypeError if it is not."""
    return Table3(
        tuple(run_from_json(run, where) for run in content["runs"]),
        tuple(Unfinished(**run) for run in content["unfinished"]),
    )

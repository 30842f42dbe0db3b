"""Table 3 from runs of any systems and seeds on one corpus, as blocks and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from statistics import fmean

from fairseq_aiayn.paper import BASE, TABLE_3, Row
from fairseq_aiayn.report.comparison import signatures
from fairseq_aiayn.report.document import Block, Bullets, Paragraph, Table
from fairseq_aiayn.report.provenance import how_made, machines
from fairseq_aiayn.runs.paper_conditions import TABLE_3_CONDITIONS, unmet_conditions
from fairseq_aiayn.runs.published import OTHER_MEASURE
from fairseq_aiayn.runs.run_directory import read_settings, require_same
from fairseq_aiayn.runs.seeds import deviation
from fairseq_aiayn.runs.translation_run import SAME_SCORE, Run, read_run, run_from_json

KIND = "table3"  # of results, in JSON
ROWS: dict[str, Row] = {row.name: row for row in TABLE_3}

# What runs must have in common to stand in one table
SAME: dict[str, Callable[[Run], object]] = {
    "corpus": lambda run: run.settings.corpus,
    "subset": lambda run: run.settings.subset,
    "number of averaged checkpoints": lambda run: run.settings.averaged,
    "vocabulary": lambda run: run.vocabulary,
    **SAME_SCORE,
}


@dataclass(frozen=True)
class Unfinished:
    """A run that has no results, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class Table3:
    """The finished runs of a Table 3, and the others."""

    runs: tuple[Run, ...]
    unfinished: tuple[Unfinished, ...]


@dataclass(frozen=True)
class Seeds:
    """The runs of one row by one system; each has another seed."""

    system: str
    row: Row
    runs: tuple[Run, ...]


def read_table3(directories: Sequence[Path]) -> Table3:
    """Read run directories, finished or not; an unfinished run keeps its name and the reason.

    Raises ValueError for runs that are not of Table 3 or cannot stand in one table.
    """
    found, unfinished = [], []
    for directory in directories:
        try:
            found.append((directory, read_run(directory).run))
        except (OSError, ValueError) as error:
            unfinished.append(Unfinished(_name(directory), _reason(directory, error)))
    _require_rows(found)
    require_same(found, SAME)
    _require_one_budget([run for _, run in found])
    return Table3(tuple(run for _, run in found), tuple(unfinished))


def group_by_row(runs: Sequence[Run]) -> list[Seeds]:
    """Group runs by row, in the paper's order, and by system, in the order of the runs."""
    groups: dict[tuple[str, str], list[Run]] = {}
    systems = dict.fromkeys(run.settings.system for run in runs)
    for run in runs:
        groups.setdefault((run.settings.row, run.settings.system), []).append(run)
    return [
        Seeds(system, row, tuple(groups[row.name, system]))
        for row in TABLE_3
        for system in systems
        if (row.name, system) in groups
    ]


def _shares_of_steps(runs: Sequence[Run]) -> set[Fraction]:
    """Return the runs' updates as shares of the steps that the paper trains their rows for."""
    return {Fraction(run.training.updates, ROWS[run.settings.row].steps) for run in runs}


def _require_rows(found: Sequence[tuple[Path, Run]]) -> None:
    seen: dict[tuple, Path] = {}
    for directory, run in found:
        settings = run.settings
        if settings.row not in ROWS:
            raise ValueError(
                f"{directory}: must be a run of one of the rows of Table 3, {', '.join(ROWS)}; "
                f"its row is {settings.row!r}"
            )
        key = settings.system, settings.row, settings.seed
        if key in seen:
            raise ValueError(
                f"{directory}: must have another seed than {seen[key]}, which is {key[0]}'s "
                f"{key[1]}, too, has {key[2]}"
            )
        seen[key] = directory


def _require_one_budget(runs: Sequence[Run]) -> None:
    """Raise ValueError unless all runs have the same updates, or the same share of the paper's."""
    updates = {run.training.updates for run in runs}
    if len(updates) > 1 and len(_shares_of_steps(runs)) > 1:
        budgets = dict.fromkeys(f"{run.settings.row} {run.training.updates:,}" for run in runs)
        raise ValueError(
            "all runs must have the same number of updates, or the same share of the steps that "
            f"their rows have in the paper, have {', '.join(budgets)}"
        )


def _name(directory: Path) -> str:
    try:
        return read_settings(directory / "settings.json").name
    except (OSError, ValueError):
        return directory.resolve().name


def _reason(directory: Path, error: OSError | ValueError) -> str:
    """Return an error's message, with the paths of files relative to the run directory."""
    message = str(error)
    if isinstance(error, OSError) and error.strerror:
        message = f"{error.filename}: {error.strerror}"
    return message.replace(f"{directory}/", "")


def _setting(field: str) -> Callable[[Seeds], str]:
    """Return a column of the paper's settings, which is empty where a row has the value of base."""

    def cell(seeds: Seeds) -> str:
        value = getattr(seeds.row, field)
        return "" if seeds.row is not BASE and value == getattr(BASE, field) else str(value)

    return cell


def _printed(field: str, digits: int) -> Callable[[Seeds], str]:
    """Return a column of a result that the paper prints for some rows."""

    def cell(seeds: Seeds) -> str:
        value = getattr(seeds.row.published, field)
        return "" if value is None else f"{value:.{digits}f}"

    return cell


def _measured(value: Callable[[Run], float], digits: int) -> Callable[[Seeds], str]:
    """Return a column of means over seeds, with the sample deviation if there are several."""

    def cell(seeds: Seeds) -> str:
        values = [value(run) for run in seeds.runs]
        spread = f" ± {deviation(values):.{digits}f}" if len(values) > 1 else ""
        return f"{fmean(values):.{digits}f}{spread}"

    return cell


COLUMNS: dict[str, Callable[[Seeds], str]] = {
    "row": lambda seeds: seeds.row.name,
    **{
        symbol: _setting(symbol) for symbol in ("N", "d_model", "d_ff", "h", "d_k", "d_v", "P_drop")
    },
    "ε_ls": _setting("epsilon_ls"),
    "updates": lambda seeds: f"{seeds.runs[0].training.updates:,}",
    "PPL, paper": _printed("ppl", 2),
    "PPL, ours": _measured(lambda run: run.dev_perplexity, 2),
    "BLEU, paper": _printed("bleu", 1),
    "BLEU, ours": _measured(lambda run: run.bleu.score, 2),
    "sacreBLEU, ours": _measured(lambda run: run.sacrebleu.score, 2),
    "10⁶ params, paper": _printed("parameters", 0),
    "10⁶ params, ours": lambda seeds: f"{seeds.runs[0].training.parameters / 1e6:.1f}",
    "seeds": lambda seeds: str(len(seeds.runs)),
}


def summary_blocks(table: Table3) -> list[Block]:
    """Return the table in the paper's order of rows, and what must be known to read it."""
    groups = group_by_row(table.runs)
    systems = list(dict.fromkeys(seeds.system for seeds in groups))
    columns = dict(COLUMNS)
    if len(systems) > 1:
        columns = {"row": COLUMNS["row"], "system": lambda seeds: seeds.system} | COLUMNS
    rows = [[cell(seeds) for cell in columns.values()] for seeds in groups]
    blocks: list[Block] = [Table(list(columns), rows, left=2 if len(systems) > 1 else 1)]
    if table.runs:
        blocks += [*signatures(table.runs[0]), machines(table.runs)]
        if text := unmet_conditions(table.runs, TABLE_3_CONDITIONS):
            blocks.append(Paragraph(text))
        blocks.append(Paragraph(OTHER_MEASURE))
    if table.unfinished:
        reasons = [f"{run.name}: {run.reason}" for run in table.unfinished]
        blocks += [Paragraph("Not finished:"), Bullets(reasons)]
    for system in systems:
        finished = {seeds.row.name for seeds in groups if seeds.system == system}
        if missing := [row.name for row in TABLE_3 if row.name not in finished]:
            text = f"Rows without a finished run of {system}: {', '.join(missing)}"
            blocks.append(Paragraph(text))
    return blocks


def full_blocks(table: Table3) -> list[Block]:
    """Return the summary, and how each run was made."""
    runs = [run for seeds in group_by_row(table.runs) for run in seeds.runs]
    return [*summary_blocks(table), *how_made(runs)]


def as_json(table: Table3) -> dict:
    """Return all of a table, ready for json.dump."""
    return {"kind": KIND, **asdict(table)}


def from_json(content: Mapping, where: object) -> Table3:
    """Make a Table3 of what `as_json` returns; raises KeyError or TypeError otherwise."""
    return Table3(
        tuple(run_from_json(run, where) for run in content["runs"]),
        tuple(Unfinished(**run) for run in content["unfinished"]),
    )

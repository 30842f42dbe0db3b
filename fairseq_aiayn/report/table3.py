"""Runs of the rows of Table 3: any systems and seeds, on one corpus with one budget."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from fairseq_aiayn.paper import TABLE_3, Row
from fairseq_aiayn.runs.run_directory import read_settings, require_same
from fairseq_aiayn.runs.translation_run import SAME_SCORE, Run, read_run

ROWS: dict[str, Row] = {row.name: row for row in TABLE_3}

# What runs must have in common to stand in one table.
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
    """All that was found of a Table 3."""

    runs: tuple[Run, ...]
    unfinished: tuple[Unfinished, ...]


@dataclass(frozen=True)
class Seeds:
    """The runs of one row by one system, which differ in their seeds."""

    system: str
    row: Row
    runs: tuple[Run, ...]


def read_table3(directories: Sequence[Path]) -> Table3:
    """Read run directories; those without a finished run are only noted.

    Raises ValueError for runs that are not of Table 3 or cannot stand in one table.
    """
    found, unfinished = [], []
    for directory in directories:
        try:
            found.append((directory, read_run(directory)))
        except (OSError, ValueError) as error:
            unfinished.append(Unfinished(_name(directory), _reason(directory, error)))
    _require_rows(found)
    require_same(found, SAME)
    _require_one_budget([run for _, run in found])
    return Table3(tuple(run for _, run in found), tuple(unfinished))


def group_by_row(runs: Sequence[Run]) -> list[Seeds]:
    """Group runs by row and system: rows in the paper's order, systems and seeds as they come."""
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
    """Return what share of their rows' steps in the paper the runs were trained for."""
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
    """The paper trains big for three times the steps of base: a share of that counts, too."""
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
    """Return an error's message with files as they are called in the run directory."""
    message = str(error)
    if isinstance(error, OSError) and error.strerror:
        message = f"{error.filename}: {error.strerror}"
    return message.replace(f"{directory}/", "")

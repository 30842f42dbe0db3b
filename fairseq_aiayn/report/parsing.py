"""The page on searches with trained parsers (section 6.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from fairseq_aiayn.report.document import Document, Section
from fairseq_aiayn.report.provenance import machines
from fairseq_aiayn.report.sections import (
    cells_table,
    curves_section,
    differences_section,
    making_section,
    paragraphs,
    seeds_section,
)
from fairseq_aiayn.report.table4 import Table4, read_table4
from fairseq_aiayn.report.table4_markdown import (
    caveat,
    detail_cells,
    label_cells,
    parser_cells,
)
from fairseq_aiayn.runs.differences import Difference, run_differences
from fairseq_aiayn.runs.learning_curves import LearningCurves, read_learning_curves
from fairseq_aiayn.runs.parsing_run import FIGURES
from fairseq_aiayn.runs.seeds import OverSeeds, over_seeds
from fairseq_aiayn.runs.train_options import read_train_options

KIND = "parsing report"  # in JSON


@dataclass(frozen=True)
class ParsingReport:
    """All that the page says, by the names of the runs where nothing else is said."""

    table: Table4
    seeds: list[OverSeeds]
    differences: list[Difference]
    curves: dict[str, LearningCurves]  # by the name of the training, which may have two searches


def read_report(directories: Sequence[Path]) -> ParsingReport:
    """Read directories of searches, RUN/PART, at least one.

    Raises as `read_table4` and `read_learning_curves` do.
    """
    table = read_table4(directories)
    logs = [path.absolute().parent / "train.log" for path in directories]
    options = [read_train_options(log) for log in logs]
    trainings: dict[str, Path] = {}  # logs by the names of the runs
    for run, log in zip(table.runs, logs, strict=True):
        name = run.settings.name
        if trainings.setdefault(name, log) != log:
            raise ValueError(
                f"{log.parent}: must have another name than {trainings[name].parent}, "
                f"both are {name}"
            )
    return ParsingReport(
        table=table,
        seeds=over_seeds(table.runs, options, FIGURES),
        differences=run_differences(table.runs, options),
        curves={name: read_learning_curves(log) for name, log in trainings.items()},
    )


def document(report: ParsingReport) -> Document:
    """Arrange the page."""
    runs = report.table.runs
    names, systems = [run.name for run in runs], {run.settings.system for run in runs}
    scored = f"Parameters of EVALB: {runs[0].scores.parameters}"
    results = [
        cells_table(detail_cells(runs)),
        *paragraphs([scored, *machines(runs)]),
    ]
    paper = [cells_table(parser_cells(runs), left=2), *paragraphs(caveat(runs))]
    return Document(
        " · ".join(names),
        [
            Section("Results", results),
            *seeds_section(report.seeds),
            Section("Table 4", paper),
            Section("Labels", [cells_table(label_cells(runs))]),
            *differences_section(names, systems, report.differences),
            *curves_section(report.curves),
            making_section(runs),
        ],
    )


def as_json(report: ParsingReport) -> dict:
    """Return all of a report, ready for json.dump."""
    return {"kind": KIND, **asdict(report)}

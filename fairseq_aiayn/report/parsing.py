"""The page on searches with trained parsers (section 6.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fairseq_aiayn.diagnosis.diagnosis import Diagnosis, diagnose
from fairseq_aiayn.diagnosis.evidence import evidence_of_run
from fairseq_aiayn.report.curves import curves_section
from fairseq_aiayn.report.document import Document, Section
from fairseq_aiayn.report.provenance import how_made, machines
from fairseq_aiayn.report.sections import differences_section, over_seeds_section
from fairseq_aiayn.report.table4 import (
    Table4,
    caveat,
    details_table,
    evalb_parameters,
    labels_table,
    parsers_table,
    significance_blocks,
)
from fairseq_aiayn.runs.differences import Difference, run_differences
from fairseq_aiayn.runs.fairseq_log import Log
from fairseq_aiayn.runs.learning_curves import LearningCurves, learning_curves_of
from fairseq_aiayn.runs.parsing_run import FIGURES, ReadSearch, f1_differences, read_searches
from fairseq_aiayn.runs.seeds import OverSeeds, first_seeds, over_seeds
from fairseq_aiayn.runs.train_log import train_options_of

KIND = "parsing report"  # in JSON


@dataclass(frozen=True)
class ParsingReport:
    """All figures of the page."""

    table: Table4
    seeds: list[OverSeeds]
    differences: list[Difference]
    diagnoses: dict[str, Diagnosis]
    curves: dict[str, LearningCurves]  # by the name of the training, which may have two searches


def read_report(directories: Sequence[Path]) -> ParsingReport:
    """Read directories of searches, RUN/PART, at least one.

    Raises as `read_searches` and `learning_curves_of` do.
    """
    found = read_searches(directories)
    runs = tuple(one.run for one in found)
    options = [train_options_of(one.log) for one in found]
    logs = _logs_by_training(found)
    return ParsingReport(
        table=Table4(runs, f1_differences(directories, runs)),
        seeds=over_seeds(runs, FIGURES),
        differences=run_differences(runs, options),
        diagnoses={one.run.name: diagnose(evidence_of_run(one.run, one.log)) for one in found},
        curves={name: learning_curves_of(log) for name, log in logs.items()},
    )


def _logs_by_training(found: Sequence[ReadSearch]) -> dict[str, Log]:
    """Return the logs by the names of the trainings; raises ValueError if two share a name."""
    logs: dict[str, Log] = {}
    for one in found:
        name = one.run.settings.name
        first = logs.setdefault(name, one.log)
        if first.path != one.log.path:
            raise ValueError(
                f"{one.log.path.parent}: must have another name than {first.path.parent}, "
                f"both are {name}"
            )
    return logs


def _significance_section(table: Table4) -> list[Section]:
    blocks = significance_blocks(table)
    return [Section("Significance", blocks)] if blocks else []


def document(report: ParsingReport) -> Document:
    """Arrange the page."""
    runs = report.table.runs
    names = [run.name for run in runs]
    firsts = first_seeds(runs, report.seeds)
    results = [details_table(runs), evalb_parameters(runs), machines(runs)]
    return Document(
        " · ".join(names),
        [
            Section("Results", results),
            *over_seeds_section(report.seeds),
            *_significance_section(report.table),
            Section("Table 4", [parsers_table(runs), *caveat(runs)]),
            Section("Labels", [labels_table(firsts)]),
            *differences_section(report.differences, report.diagnoses),
            *curves_section(report.curves),
            Section("How the runs were made", how_made(firsts)),
        ],
    )

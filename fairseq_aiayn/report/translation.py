"""The page on runs of translation models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from fairseq_aiayn.report.comparison_table import caveat, measured_cells
from fairseq_aiayn.report.document import Document, Section
from fairseq_aiayn.report.provenance import machines, signatures
from fairseq_aiayn.report.sections import (
    cells_table,
    curves_section,
    differences_section,
    making_section,
    paragraphs,
    seeds_section,
)
from fairseq_aiayn.report.translation_sections import (
    Contested,
    disagreement_section,
    examples_section,
    length_section,
    rows_section,
    significance_section,
)
from fairseq_aiayn.runs.differences import Difference, run_differences
from fairseq_aiayn.runs.learning_curves import LearningCurves, read_learning_curves
from fairseq_aiayn.runs.seeds import OverSeeds, over_seeds
from fairseq_aiayn.runs.train_options import read_train_options
from fairseq_aiayn.runs.translation_run import (
    Comparison,
    Run,
    Texts,
    example_at,
    figures_of,
    read_comparison,
    read_texts,
)
from fairseq_aiayn.scores.bleu import sacre_bleu
from fairseq_aiayn.scores.bleu_by_length import LengthClass, bleu_by_length
from fairseq_aiayn.scores.disagreement import (
    Contrast,
    contrasts,
    largest_disagreements,
    sentence_chrf,
)
from fairseq_aiayn.scores.significance import Significance, paired_bootstrap

KIND = "translation report"  # in JSON
ROUNDING = 0.01  # BLEU; a score may have been written with two digits


@dataclass(frozen=True)
class TranslationReport:
    """All that the page says, by the names of the runs where nothing else is said."""

    comparison: Comparison
    seeds: list[OverSeeds]
    differences: list[Difference]
    curves: dict[str, LearningCurves]
    lengths: list[LengthClass]
    significance: Significance | None  # of two runs or more, against the first
    contrasts: dict[str, Contrast]  # likewise, sentence by sentence
    disagreements: list[Contested]


def read_report(directories: Sequence[Path], examples: int) -> TranslationReport:
    """Read run directories, at least one, and choose so many examples of either kind.

    Raises as `read_comparison` and `read_learning_curves` do.
    """
    comparison = read_comparison(directories, examples)
    names = [run.name for run in comparison.runs]
    paths = dict(zip(names, directories, strict=True))
    logs = {name: path / "train.log" for name, path in paths.items()}
    texts = {name: read_texts(path) for name, path in paths.items()}
    first = texts[names[0]]
    translations = {name: text.hypothesis for name, text in texts.items()}
    options = [read_train_options(log) for log in logs.values()]
    for run, path in zip(comparison.runs, directories, strict=True):
        _require_own_score(run, texts[run.name], path / "score.json")
    several = len(names) > 1
    chrf = sentence_chrf(translations, first.reference) if several else {}
    return TranslationReport(
        comparison=comparison,
        seeds=over_seeds(comparison.runs, options, figures_of(comparison.runs)),
        differences=run_differences(comparison.runs, options),
        curves={name: read_learning_curves(log) for name, log in logs.items()},
        lengths=bleu_by_length(first.source, first.reference, translations),
        significance=paired_bootstrap(translations, first.reference) if several else None,
        contrasts=contrasts(chrf) if several else {},
        disagreements=[
            Contested(example_at(texts, one.index), one.chrf)
            for one in (largest_disagreements(chrf, examples) if several else ())
        ],
    )


def _require_own_score(run: Run, texts: Texts, path: Path) -> None:
    """Raise ValueError if the score is not that of the translation that stands beside it."""
    own = sacre_bleu(texts.hypothesis, texts.reference)
    noted = run.sacrebleu
    if own.signature == noted["signature"] and abs(own.score - noted["score"]) > ROUNDING:
        raise ValueError(
            f"{path}: sacreBLEU must be that of hypothesis.txt, {own.score:.2f}, is "
            f"{noted['score']:.2f}"
        )


def document(report: TranslationReport) -> Document:
    """Arrange the page."""
    comparison = report.comparison
    runs = comparison.runs
    names, systems = [run.name for run in runs], {run.settings.system for run in runs}
    summary = [
        cells_table(measured_cells(runs)),
        *paragraphs([*machines(runs), *caveat(runs), *signatures(runs[0])]),
    ]
    return Document(
        " · ".join(names),
        [
            Section("Results", summary),
            *seeds_section(report.seeds),
            *significance_section(report.significance, report.contrasts, runs[0].sentences),
            *differences_section(names, systems, report.differences),
            *curves_section(report.curves),
            length_section(runs, report.lengths),
            *disagreement_section(report.disagreements),
            *examples_section(comparison.examples),
            *rows_section(runs),
            making_section(runs),
        ],
    )


def as_json(report: TranslationReport) -> dict:
    """Return all of a report, ready for json.dump."""
    return {"kind": KIND, **asdict(report)}

"""The page on runs of translation models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from fairseq_aiayn.report.comparison import caveat, measured_table, signatures
from fairseq_aiayn.report.curves import curves_section
from fairseq_aiayn.report.document import Document, Section
from fairseq_aiayn.report.provenance import machines
from fairseq_aiayn.report.sections import (
    differences_section,
    how_made_section,
    over_seeds_section,
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
from fairseq_aiayn.runs.learning_curves import LearningCurves, learning_curves_of
from fairseq_aiayn.runs.seeds import OverSeeds, over_seeds
from fairseq_aiayn.runs.train_log import train_options_of
from fairseq_aiayn.runs.translation_run import (
    Comparison,
    ReadRun,
    comparison_of,
    example_at,
    figures_of,
    read_runs,
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
    """All figures of the page; the keys of dictionaries are names of runs."""

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

    Raises as `read_runs` and `learning_curves_of` do.
    """
    found = read_runs(directories)
    for one in found:
        _require_own_score(one)
    comparison = comparison_of(found, examples)
    runs, several = comparison.runs, len(found) > 1
    options = [train_options_of(one.log) for one in found]
    texts = {one.run.name: one.texts for one in found}
    translations = {name: text.hypothesis for name, text in texts.items()}
    source, reference = found[0].texts.source, found[0].texts.reference
    chrf = sentence_chrf(translations, reference) if several else {}
    return TranslationReport(
        comparison=comparison,
        seeds=over_seeds(runs, options, figures_of(runs)),
        differences=run_differences(runs, options),
        curves={one.run.name: learning_curves_of(one.log) for one in found},
        lengths=bleu_by_length(source, reference, translations),
        significance=paired_bootstrap(translations, reference) if several else None,
        contrasts=contrasts(chrf) if several else {},
        disagreements=[
            Contested(example_at(texts, one.index), one.chrf)
            for one in (largest_disagreements(chrf, examples) if several else ())
        ],
    )


def _require_own_score(read: ReadRun) -> None:
    """Raise ValueError if the score is not that of the translation that stands beside it."""
    own = sacre_bleu(read.texts.hypothesis, read.texts.reference)
    noted = read.run.sacrebleu
    if own.signature == noted["signature"] and abs(own.score - noted["score"]) > ROUNDING:
        raise ValueError(
            f"{read.directory / 'score.json'}: sacreBLEU must be that of hypothesis.txt, "
            f"{own.score:.2f}, is {noted['score']:.2f}"
        )


def document(report: TranslationReport) -> Document:
    """Return the page."""
    runs = report.comparison.runs
    names, systems = [run.name for run in runs], {run.settings.system for run in runs}
    results = [measured_table(runs), machines(runs), *caveat(runs), *signatures(runs[0])]
    return Document(
        " · ".join(names),
        [
            Section("Results", results),
            *over_seeds_section(report.seeds),
            *significance_section(report.significance, report.contrasts, runs[0].sentences),
            *differences_section(names, systems, report.differences),
            *curves_section(report.curves),
            length_section(runs, report.lengths),
            *disagreement_section(report.disagreements),
            *examples_section(report.comparison.examples),
            *rows_section(runs),
            how_made_section(runs),
        ],
    )


def as_json(report: TranslationReport) -> dict:
    """Return all of a report, ready for json.dump."""
    return {"kind": KIND, **asdict(report)}

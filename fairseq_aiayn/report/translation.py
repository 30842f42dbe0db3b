"""The page on runs of translation models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fairseq_aiayn.cost import explanation, row_table
from fairseq_aiayn.diagnosis.diagnosis import Diagnosis, diagnose
from fairseq_aiayn.diagnosis.evidence import evidence_of_run
from fairseq_aiayn.paper import ROWS
from fairseq_aiayn.report.comparison import caveat, example_block, measured_table, signatures
from fairseq_aiayn.report.curves import curves_section, draw_bleu_by_length, length_range
from fairseq_aiayn.report.document import Block, Document, Figure, Paragraph, Section, Table
from fairseq_aiayn.report.provenance import how_made, machines
from fairseq_aiayn.report.sections import (
    MEANING_OF_P,
    differences_section,
    over_seeds_section,
    verdict,
)
from fairseq_aiayn.runs.differences import Difference, run_differences
from fairseq_aiayn.runs.learning_curves import LearningCurves, learning_curves_of
from fairseq_aiayn.runs.seeds import OverSeeds, first_seeds, over_seeds
from fairseq_aiayn.runs.train_log import train_options_of
from fairseq_aiayn.runs.translation_run import (
    Comparison,
    Example,
    ReadRun,
    Run,
    comparison_of,
    example_at,
    figures_of,
    read_runs,
)
from fairseq_aiayn.scores import (
    Contrast,
    LengthClass,
    Significance,
    bleu_by_length,
    contrasts,
    largest_disagreements,
    paired_bootstrap,
    sacre_bleu,
    sentence_chrf,
)

KIND = "translation report"  # in JSON
ROUNDING = 0.01  # BLEU; a score may have been written with two digits


@dataclass(frozen=True)
class Contested:
    """A sentence that systems translate very differently, with the chrF of each."""

    example: Example
    chrf: dict[str, float]


@dataclass(frozen=True)
class TranslationReport:
    """All figures of the page; the keys of dictionaries are names of runs."""

    comparison: Comparison
    seeds: list[OverSeeds]
    differences: list[Difference]
    diagnoses: dict[str, Diagnosis]
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
    seeds = over_seeds(runs, figures_of(runs))
    chrf_of_firsts = {one.name: chrf[one.name] for one in first_seeds(runs, seeds) if several}
    return TranslationReport(
        comparison=comparison,
        seeds=seeds,
        differences=run_differences(runs, options),
        diagnoses={
            one.run.name: diagnose(evidence_of_run(one.run, one.log, one.run.bleu.signature))
            for one in found
        },
        curves={one.run.name: learning_curves_of(one.log) for one in found},
        lengths=bleu_by_length(source, reference, translations),
        significance=paired_bootstrap(translations, reference) if several else None,
        contrasts=contrasts(chrf) if several else {},
        disagreements=[
            Contested(example_at(texts, k), {name: of[k] for name, of in chrf_of_firsts.items()})
            for k in largest_disagreements(chrf_of_firsts, examples)
        ],
    )


def _require_own_score(read: ReadRun) -> None:
    """Raise ValueError if the score is not that of the translation that stands beside it."""
    own = sacre_bleu(read.texts.hypothesis, read.texts.reference)
    noted = read.run.sacrebleu
    if own.signature == noted.signature and abs(own.score - noted.score) > ROUNDING:
        raise ValueError(
            f"{read.directory / 'score.json'}: sacreBLEU must be that of hypothesis.txt, "
            f"{own.score:.2f}, is {noted.score:.2f}"
        )


def document(report: TranslationReport) -> Document:
    """Arrange the page."""
    runs = report.comparison.runs
    names = [run.name for run in runs]
    firsts = first_seeds(runs, report.seeds)
    results = [measured_table(runs), machines(runs), *caveat(runs), *signatures(runs[0])]
    return Document(
        " · ".join(names),
        [
            Section("Results", results),
            *over_seeds_section(report.seeds),
            *_significance_section(report.significance, report.contrasts, runs[0].sentences),
            *differences_section(report.differences, report.diagnoses),
            *curves_section(report.curves),
            _length_section(runs, report.lengths),
            *_disagreement_section(report.disagreements),
            *_examples_section(report.comparison.examples, [run.name for run in firsts]),
            *_rows_section(runs),
            Section("How the runs were made", how_made(firsts)),
        ],
    )


def _significance_section(
    found: Significance | None, contrasts: Mapping[str, Contrast], sentences: int
) -> list[Section]:
    """Return each run against the first, over resampled test sets and sentence by sentence."""
    if not found:
        return []
    header = ["", "sacreBLEU", "mean of the samples, 95%", "p", "difference"]
    rows = []
    for name, tested in found.systems.items():
        p, difference = "", "the one that others are tested against"
        if tested.p_value is not None:
            p, difference = f"{tested.p_value:.3f}", verdict(tested.p_value, sentences)
        samples = f"{tested.mean:.2f} ± {tested.interval:.2f}"
        rows.append([name, f"{tested.score:.2f}", samples, p, difference])
    text = f"Paired bootstrap (Koehn, 2004) by sacreBLEU: {MEANING_OF_P}"
    by_sentence = Table(
        ["sentences by chrF", "better than the first run", "worse", "as good"],
        [
            [name, *(f"{n:,}" for n in (one.better, one.worse, one.even))]
            for name, one in contrasts.items()
        ],
    )
    signature = Paragraph(f"sacreBLEU: `{found.signature}`")
    return [Section("Significance", [Paragraph(text), Table(header, rows), signature, by_sentence])]


def _length_section(runs: Sequence[Run], classes: Sequence[LengthClass]) -> Section:
    """Return BLEU of short and of long sentences, and the lengths of the translations."""
    names = list(classes[0].bleu)
    rows = [
        [
            length_range(one),
            f"{one.sentences:,}",
            *(f"{one.bleu[name]:.2f}" for name in names),
        ]
        for one in classes
    ]
    table = Table(["words of the source", "sentences", *names], rows)
    caption = "sacreBLEU by the length of the source."
    header = ["", "translation ÷ reference", "brevity penalty", "translation", "reference"]
    lengths = [
        [
            run.name,
            f"{run.bleu.length_ratio:.3f}",
            f"{run.bleu.brevity_penalty:.3f}",
            f"{run.bleu.hypothesis_length:,}",
            f"{run.bleu.reference_length:,}",
        ]
        for run in runs
    ]
    text = "Lengths in tokens of the paper's BLEU; a ratio below 1 costs the brevity penalty."
    return Section(
        "Lengths",
        [
            Figure(draw_bleu_by_length(classes), caption, table),
            Paragraph(text),
            Table(header, lengths),
        ],
    )


def _disagreement_section(contested: Sequence[Contested]) -> list[Section]:
    """Return the sentences whose translations differ most in quality."""
    if not contested:
        return []
    text = (
        "Sentences with the largest difference between the best and the worst translation, by "
        "chrF, which stands in brackets."
    )
    blocks: list[Block] = [Paragraph(text)]
    blocks += [example_block(one.example, list(one.chrf), one.chrf) for one in contested]
    return [Section("Where translations differ most", blocks)]


def _examples_section(examples: Sequence[Example], names: Sequence[str]) -> list[Section]:
    """Return the sentences at equal distances; nothing if there are none."""
    if not examples:
        return []
    text = Paragraph("Sentences at equal distances in the test set.")
    return [Section("Examples", [text, *(example_block(one, names) for one in examples)])]


def _rows_section(runs: Sequence[Run]) -> list[Section]:
    """Return sizes and costs of the rows; nothing if the logs do not show one vocabulary."""
    vocabularies = {run.vocabulary for run in runs}
    rows = list(dict.fromkeys(run.settings.row for run in runs if run.settings.row in ROWS))
    vocabulary = vocabularies.pop()
    if vocabularies or not vocabulary or not rows:
        return []
    table = row_table([ROWS[name] for name in rows], vocabulary)
    cells = Table(table[0], table[1:])
    return [Section("Rows", [cells, Paragraph(explanation(vocabulary))])]

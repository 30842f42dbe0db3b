"""Sections that only the page on translation models has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fairseq_aiayn.cost.row_table import explanation, row_table
from fairseq_aiayn.report.comparison import example_block
from fairseq_aiayn.report.curves import draw_bleu_by_length, length_range
from fairseq_aiayn.report.document import Block, Figure, Paragraph, Section, Table
from fairseq_aiayn.rows import ROWS
from fairseq_aiayn.runs.translation_run import Example, Run
from fairseq_aiayn.scores.bleu_by_length import LengthClass
from fairseq_aiayn.scores.disagreement import Contrast
from fairseq_aiayn.scores.significance import FEWEST, LEVEL, Significance


@dataclass(frozen=True)
class Contested:
    """A sentence that systems translate very differently, with the chrF of each."""

    example: Example
    chrf: dict[str, float]


def significance_section(
    found: Significance | None, contrasts: Mapping[str, Contrast], sentences: int
) -> list[Section]:
    """Return each run against the first, over resampled test sets and sentence by sentence."""
    if not found:
        return []
    header = ["", "sacreBLEU", "mean of the samples, 95%", "p", "difference"]
    rows = []
    for name, tested in found.systems.items():
        p, verdict = "", "the one that others are tested against"
        if tested.p_value is not None:
            p, verdict = f"{tested.p_value:.3f}", "may be chance"
            if sentences < FEWEST:
                verdict = f"of fewer than {FEWEST} sentences nothing is said"
            elif tested.p_value < LEVEL:
                verdict = "significant"
        interval = f"{tested.mean:.2f} ± {tested.interval:.2f}"
        rows.append([name, f"{tested.score:.2f}", interval, p, verdict])
    text = (
        "Paired bootstrap (Koehn, 2004) by sacreBLEU: p is how often resampled test sets show a "
        "difference as large where there is none. It says nothing about another seed, which moves "
        "BLEU too."
    )
    by_sentence = Table(
        ["sentences by chrF", "better than the first run", "worse", "as good"],
        [
            [name, *(f"{n:,}" for n in (one.better, one.worse, one.even))]
            for name, one in contrasts.items()
        ],
    )
    signature = Paragraph(f"sacreBLEU: `{found.signature}`")
    return [Section("Significance", [Paragraph(text), Table(header, rows), signature, by_sentence])]


def length_section(runs: Sequence[Run], classes: Sequence[LengthClass]) -> Section:
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
    lengths = [[run.name, *_lengths(run.bleu)] for run in runs]
    text = "Lengths in tokens of the paper's BLEU; a ratio below 1 costs the brevity penalty."
    return Section(
        "Lengths",
        [
            Figure(draw_bleu_by_length(classes), caption, table),
            Paragraph(text),
            Table(header, lengths),
        ],
    )


def disagreement_section(contested: Sequence[Contested]) -> list[Section]:
    """Return the sentences whose translations differ most in quality."""
    if not contested:
        return []
    text = (
        "Sentences with the largest difference between the best and the worst translation, by "
        "chrF, which stands in brackets."
    )
    blocks: list[Block] = [Paragraph(text)]
    blocks += [example_block(one.example, one.chrf) for one in contested]
    return [Section("Where translations differ most", blocks)]


def examples_section(examples: Sequence[Example]) -> list[Section]:
    """Return the sentences at equal distances; nothing if there are none."""
    if not examples:
        return []
    text = Paragraph("Taken at equal distances from the test set.")
    return [Section("Examples", [text, *map(example_block, examples)])]


def rows_section(runs: Sequence[Run]) -> list[Section]:
    """Return sizes and costs of the rows; nothing if the logs do not show one vocabulary."""
    vocabularies = {run.vocabulary for run in runs}
    rows = list(dict.fromkeys(run.settings.row for run in runs if run.settings.row in ROWS))
    vocabulary = vocabularies.pop()
    if vocabularies or not vocabulary or not rows:
        return []
    table = row_table([ROWS[name] for name in rows], vocabulary)
    cells = Table(table[0], table[1:])
    return [Section("Rows", [cells, Paragraph(explanation(vocabulary))])]


def _lengths(bleu: Mapping) -> list[str]:
    """Return ratio, brevity penalty and lengths; a cell is empty if an older score lacks it."""
    forms = {
        "length_ratio": "{:.3f}",
        "brevity_penalty": "{:.3f}",
        "hypothesis_length": "{:,}",
        "reference_length": "{:,}",
    }
    return [form.format(bleu[key]) if key in bleu else "" for key, form in forms.items()]

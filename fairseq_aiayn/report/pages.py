"""The sections of a page on runs, and the page as Markdown, HTML and JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from fairseq_aiayn.diagnosis.diagnosis import Diagnosis, unequal_aspects
from fairseq_aiayn.report.curves import curves_blocks
from fairseq_aiayn.report.document import (
    Block,
    Code,
    Paragraph,
    Sections,
    Table,
    Texts,
    as_html,
    as_json,
    as_markdown,
)
from fairseq_aiayn.report.results import TABLE3, Example, Report, Results, results_as_json
from fairseq_aiayn.report.tables import (
    MEANING_OF_P,
    group_by_row,
    how_made,
    labels_table,
    over_seeds_blocks,
    parsers_blocks,
    table3_blocks,
    translations_blocks,
    verdict,
)
from fairseq_aiayn.runs.differences import Difference
from fairseq_aiayn.runs.run import ParserRun, TranslationRun
from fairseq_aiayn.scores import LengthClass, Significance
from fairseq_aiayn.text import write_whole

RESULTS = "Results"


def write_page(results: Results, directory: Path, stem: str) -> None:
    """Write `stem`.md, `stem`.json and report.html into a directory, which is created if it is
    missing."""
    names = " · ".join(run.name for run in results.runs)
    title, found = "Table 3" if results.kind == TABLE3 else names, sections(results)
    directory.mkdir(parents=True, exist_ok=True)
    write_whole(directory / f"{stem}.md", as_markdown(title, found))
    write_whole(directory / f"{stem}.json", as_json(results_as_json(results)))
    write_whole(directory / "report.html", as_html(title, found))


def sections(results: Results) -> Sections:
    """Return the sections by their headings; one without anything to say is left out."""
    translations = [run for run in results.runs if isinstance(run, TranslationRun)]
    parsers = [run for run in results.runs if isinstance(run, ParserRun)]
    firsts, seeds = results.first_runs, over_seeds_blocks(results.seeds)
    found: dict[str, Sequence[Block]] = {}
    if results.kind == TABLE3:
        found[RESULTS] = table3_blocks(translations, results.unfinished)
        firsts = [run for of_row in group_by_row(translations) for run in of_row]
    elif parsers:
        found[RESULTS] = [*seeds, *parsers_blocks(parsers, results.f1_differences)]
        found["Labels"] = [labels_table([run for run in parsers if run in firsts])]
    else:
        found[RESULTS] = [*seeds, *translations_blocks(translations)]
    if isinstance(results, Report):
        found |= {
            "Significance": significance_blocks(results.significance, results.runs[0].sentences),
            "What differs": differences_blocks(results.differences, results.diagnoses),
            "Learning curves": curves_blocks(results.curves),
            "Lengths": lengths_blocks(results.lengths),
            "Where translations differ most": disagreement_blocks(results.disagreements),
        }
    found["Examples"] = examples_blocks(results.examples, [run.name for run in firsts])
    found["How the runs were made"] = how_made(firsts)
    return {heading: blocks for heading, blocks in found.items() if blocks}


def significance_blocks(significance: Significance | None, sentences: int) -> list[Block]:
    """Return each translation against the first, over resampled test sets."""
    if not significance:
        return []
    header = ["", "sacreBLEU", "mean of the samples, 95%", "p", "difference"]
    rows = []
    for name, tested in significance.systems.items():
        p, difference = "", "the one that others are tested against"
        if tested.p_value is not None:
            p, difference = f"{tested.p_value:.3f}", verdict(tested.p_value, sentences)
        samples = f"{tested.mean:.2f} ± {tested.interval:.2f}"
        rows.append([name, f"{tested.score:.2f}", samples, p, difference])
    return [
        Paragraph(f"Paired bootstrap (Koehn, 2004) by sacreBLEU: {MEANING_OF_P}"),
        Table(header, rows),
        Paragraph(["sacreBLEU: ", Code(significance.signature)]),
    ]


def differences_blocks(
    differences: Sequence[Difference], diagnoses: Mapping[str, Diagnosis]
) -> list[Block]:
    """Return where runs differ from their rows, and from each other.

    `diagnoses` has every run by its name.
    """
    blocks = _diagnosis_blocks(diagnoses)
    if len(diagnoses) > 1:
        text = (
            "Every fact and option in which the runs differ, even if one of the systems does not "
            "use it. An empty cell means that it was not given."
        )
        rows = [[found.where, found.what, *found.values] for found in differences]
        header = ["where", "what", *diagnoses]
        blocks += [Paragraph(text), Table(header, rows, left=len(header))]
    return blocks


def _diagnosis_blocks(diagnoses: Mapping[str, Diagnosis]) -> list[Block]:
    """Return a table of where runs differ from their rows; nothing if none does."""
    rows = []
    for aspect in unequal_aspects(diagnoses.values()):
        findings = [found.findings.get(aspect) for found in diagnoses.values()]
        heaviest = max(filter(None, findings), key=lambda found: (found.differs, found.weight))
        cells = [
            (found.here if found.differs else "the same") if found else "" for found in findings
        ]
        rows.append([aspect, heaviest.paper, *cells, heaviest.effect])
    if not rows:
        return []
    header = ["", "the row of the paper or of aiayn", *diagnoses, "effect"]
    text = "Where a run differs from its row, the most important first ("
    return [
        Paragraph([text, Code("aiayn diagnose"), ")."]),
        Table(header, rows, left=len(header)),
    ]


def lengths_blocks(classes: Sequence[LengthClass]) -> list[Block]:
    """Return BLEU of short and of long sentences."""
    if not classes:
        return []
    names = list(classes[0].bleu)
    rows = [
        [_range(each), f"{each.sentences:,}", *(f"{each.bleu[name]:.2f}" for name in names)]
        for each in classes
    ]
    header = ["words of the source", "sentences", *names]
    return [Paragraph("sacreBLEU by the length of the source."), Table(header, rows)]


def _range(each: LengthClass) -> str:
    """Return the lengths of a class, such as 5–9."""
    shortest, longest = each.shortest, each.longest
    return f"{shortest}–{longest}" if shortest < longest else str(shortest)


def disagreement_blocks(examples: Sequence[Example]) -> list[Block]:
    """Return the sentences whose translations differ most in quality."""
    if not examples:
        return []
    text = (
        "Sentences with the largest difference between the best and the worst translation, by "
        "chrF, which stands in brackets."
    )
    return [Paragraph(text), *(_example(example, list(example.chrf)) for example in examples)]


def examples_blocks(examples: Sequence[Example], names: Sequence[str]) -> list[Block]:
    """Return the sentences at equal distances; nothing if there are none."""
    if not examples:
        return []
    text = Paragraph("Sentences at equal distances in the test set.")
    return [text, *(_example(example, names) for example in examples)]


def _example(example: Example, names: Sequence[str]) -> Texts:
    """Return a sentence with the translations of these runs and, if it is known, their chrF."""
    texts = [("source", example.source), ("reference", example.reference)]
    for name in names:
        chrf = f" ({example.chrf[name]:.1f})" if example.chrf else ""
        texts.append((f"{name}{chrf}", example.translations[name]))
    return Texts(f"Sentence {example.sentence:,}", texts)

"""The sections of a page on runs, and the page as Markdown, HTML and JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from fairseq_aiayn.diagnosis.diagnosis import Diagnosis, unequal_aspects
from fairseq_aiayn.report.curves import curves_blocks
from fairseq_aiayn.report.document import (
    Block,
    Code,
    Sections,
    Table,
    Texts,
    as_html,
    as_markdown,
    escaped,
    table_of,
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
    write_whole(directory / f"{stem}.md", f"# {escaped(title)}\n\n{as_markdown(found)}")
    write_whole(directory / f"{stem}.json", results_as_json(results))
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
            "Where translations differ most": examples_blocks(
                "Sentences with the largest difference between the best and the worst translation, "
                "by chrF, which stands in brackets.",
                results.disagreements,
                [run.name for run in firsts],
            ),
        }
    found["Examples"] = examples_blocks(
        "Sentences at equal distances in the test set.",
        results.examples,
        [run.name for run in firsts],
    )
    found["How the runs were made"] = [how_made(run) for run in firsts]
    return {heading: blocks for heading, blocks in found.items() if blocks}


def significance_blocks(significance: Significance | None, sentences: int) -> list[Block]:
    """Return each translation against the first, over resampled test sets."""
    if not significance:
        return []
    rows = [
        {
            "": name,
            "sacreBLEU": f"{tested.score:.2f}",
            "mean of the samples, 95%": f"{tested.mean:.2f} ± {tested.interval:.2f}",
            "p": "" if tested.p_value is None else f"{tested.p_value:.3f}",
            "difference": "the one that others are tested against"
            if tested.p_value is None
            else verdict(tested.p_value, sentences),
        }
        for name, tested in significance.systems.items()
    ]
    return [
        f"Paired bootstrap (Koehn, 2004) by sacreBLEU: {MEANING_OF_P}",
        table_of(rows),
        ["sacreBLEU: ", Code(significance.signature)],
    ]


def differences_blocks(
    differences: Sequence[Difference], diagnoses: Mapping[str, Diagnosis]
) -> list[Block]:
    """Return where runs differ from their rows, and from each other.

    `diagnoses` has every run by its name.
    """
    blocks: list[Block] = []
    if aspects := unequal_aspects(diagnoses.values()):
        header = ["", "the row of the paper or of aiayn", *diagnoses, "effect"]
        rows = [_aspect_cells(aspect, diagnoses.values()) for aspect in aspects]
        text = "Where a run differs from its row, the most important first ("
        blocks += [[text, Code("aiayn diagnose"), ")."], Table(header, rows, left=len(header))]
    if len(diagnoses) > 1:
        text = (
            "Every fact and option in which the runs differ, even if one of the systems does not "
            "use it. An empty cell means that it was not given."
        )
        rows = [[found.where, found.what, *found.values] for found in differences]
        header = ["where", "what", *diagnoses]
        blocks += [text, Table(header, rows, left=len(header))]
    return blocks


def _aspect_cells(aspect: str, diagnoses: Iterable[Diagnosis]) -> list[str]:
    """Return what the paper and each run have of an aspect, and the effect of the heaviest."""
    findings = [diagnosis.findings.get(aspect) for diagnosis in diagnoses]
    heaviest = max(filter(None, findings), key=lambda found: (found.differs, found.weight))
    cells = [(found.here if found.differs else "the same") if found else "" for found in findings]
    return [aspect, heaviest.paper, *cells, heaviest.effect]


def lengths_blocks(classes: Sequence[LengthClass]) -> list[Block]:
    """Return BLEU of short and of long sentences, by the words of the source, such as 5–9."""
    rows = [
        {
            "words of the source": "–".join(map(str, dict.fromkeys((each.shortest, each.longest)))),
            "sentences": f"{each.sentences:,}",
            **{name: f"{score:.2f}" for name, score in each.bleu.items()},
        }
        for each in classes
    ]
    return ["sacreBLEU by the length of the source.", table_of(rows)] if rows else []


def examples_blocks(text: str, examples: Sequence[Example], names: Sequence[str]) -> list[Block]:
    """Return a text and sentences with the translations of these runs and, where it is known, their
    chrF; nothing if there are no sentences."""
    blocks: list[Block] = [text]
    for example in examples:
        texts = [("source", example.source), ("reference", example.reference)]
        for name in names:
            chrf = f" ({example.chrf[name]:.1f})" if example.chrf else ""
            texts.append((f"{name}{chrf}", example.translations[name]))
        blocks.append(Texts(f"Sentence {example.sentence:,}", texts))
    return blocks if examples else []

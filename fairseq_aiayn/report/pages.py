"""The page on runs: results, significance, differences, curves, lengths, examples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from fairseq_aiayn.cost import explanation, row_table
from fairseq_aiayn.diagnosis.diagnosis import Diagnosis, diagnose, unequal_aspects
from fairseq_aiayn.diagnosis.diagnosis import as_json as diagnosis_as_json
from fairseq_aiayn.diagnosis.evidence import evidence_of_run
from fairseq_aiayn.paper import ROWS
from fairseq_aiayn.report.curves import curves_blocks, draw_bleu_by_length, length_range
from fairseq_aiayn.report.document import Block, Code, Document, Figure, Paragraph, Table
from fairseq_aiayn.report.tables import (
    COMPARISON,
    MEANING_OF_P,
    TABLE4,
    Example,
    Results,
    caveat,
    details_blocks,
    example_block,
    f1_blocks,
    how_made,
    labels_table,
    machines,
    measured_table,
    over_seeds_blocks,
    parsers_blocks,
    results_as_json,
    signatures,
    verdict,
)
from fairseq_aiayn.runs.differences import Difference, run_differences
from fairseq_aiayn.runs.logs import (
    LearningCurves,
    Log,
    flat_options,
    learning_curves_of,
    printed_configuration,
)
from fairseq_aiayn.runs.run import (
    Run,
    RunFiles,
    Texts,
    Translation,
    f1_differences,
    first_seeds,
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

ROUNDING = 0.01  # BLEU; a score may have been written with two digits


@dataclass(frozen=True)
class Disagreement:
    """A sentence that systems translate very differently, with the chrF of each."""

    example: Example
    chrf: dict[str, float]


@dataclass(frozen=True)
class TextFigures:
    """What the translations of the test set say beyond their BLEU."""

    lengths: list[LengthClass]
    significance: Significance | None  # of two runs or more, against the first
    contrasts: dict[str, Contrast]  # likewise, sentence by sentence
    disagreements: list[Disagreement]


@dataclass(frozen=True)
class Report:
    """All figures of the page; the keys of dictionaries are names of runs."""

    results: Results
    differences: list[Difference]
    diagnoses: dict[str, Diagnosis]
    curves: dict[str, LearningCurves]  # by the name of the training, which may have two searches
    texts: TextFigures | None = field(default=None)  # of translations


def read_report(directories: Sequence[Path], examples: int) -> Report:
    """Read run directories, at least one, and choose so many examples of either kind.

    Raises as `read_runs` and `learning_curves_of` do.
    """
    files = read_runs(directories)
    runs = tuple(each.run for each in files)
    figures = None
    if files[0].texts.source:
        texts = {each.run.name: each.texts for each in files}
        results = Results(COMPARISON, runs, tuple(choose_examples(texts, examples)))
        for each in files:
            _require_own_score(each)
        figures = _text_figures(texts, results, examples)
    else:
        results = Results(TABLE4, runs, f1_differences=f1_differences(files))
    logs = _logs_by_training(files)
    return Report(
        results=results,
        differences=run_differences(runs, [_train_options(each.log) for each in files]),
        diagnoses={each.run.name: _diagnosis(each.run, each.log) for each in files},
        curves={name: learning_curves_of(log) for name, log in logs.items()},
        texts=figures,
    )


def _train_options(log: Log) -> dict[str, object]:
    return flat_options(printed_configuration(log.lines))


def _diagnosis(run: Run, log: Log) -> Diagnosis:
    is_translation = isinstance(run.scores, Translation)
    signature = run.translation.bleu.signature if is_translation else None
    return diagnose(evidence_of_run(run, log, signature))


def _logs_by_training(files: Sequence[RunFiles]) -> dict[str, Log]:
    """Return the logs by the names of the trainings; raises ValueError if two share a name."""
    logs: dict[str, Log] = {}
    for each in files:
        name = each.run.settings.name
        first = logs.setdefault(name, each.log)
        if first.path != each.log.path:
            raise ValueError(
                f"{each.log.path.parent}: must have another name than {first.path.parent}, "
                f"both are {name}"
            )
    return logs


def choose_examples(texts: Mapping[str, Texts], count: int) -> list[Example]:
    """Take `count` sentences at equal distances from the texts of all runs."""
    sentences = len(next(iter(texts.values())).source)
    count = min(count, sentences)
    chosen = [(2 * k + 1) * sentences // (2 * count) for k in range(count)]
    return [_example(texts, index) for index in chosen]


def _example(texts: Mapping[str, Texts], index: int) -> Example:
    """Return a sentence, counted from 0, with the translation of each system."""
    first = next(iter(texts.values()))
    return Example(
        sentence=index + 1,
        source=first.source[index],
        reference=first.reference[index],
        translations={name: text.hypothesis[index] for name, text in texts.items()},
    )


def _text_figures(texts: Mapping[str, Texts], results: Results, examples: int) -> TextFigures:
    first = texts[results.runs[0].name]
    source, reference = first.source, first.reference
    translations = {name: text.hypothesis for name, text in texts.items()}
    lengths = bleu_by_length(source, reference, translations)
    if len(texts) < 2:
        return TextFigures(lengths, None, {}, [])
    chrf = sentence_chrf(translations, reference)
    of_firsts = {run.name: chrf[run.name] for run in first_seeds(results.runs, results.seeds)}
    return TextFigures(
        lengths=lengths,
        significance=paired_bootstrap(translations, reference),
        contrasts=contrasts(chrf),
        disagreements=[
            Disagreement(_example(texts, k), {name: of[k] for name, of in of_firsts.items()})
            for k in largest_disagreements(of_firsts, examples)
        ],
    )


def _require_own_score(files: RunFiles) -> None:
    """Raise ValueError if the score is not that of the translation that stands beside it."""
    own = sacre_bleu(files.texts.hypothesis, files.texts.reference)
    recorded = files.run.translation.sacrebleu
    if own.signature == recorded.signature and abs(own.score - recorded.score) > ROUNDING:
        raise ValueError(
            f"{files.directory / 'score.json'}: sacreBLEU must be that of hypothesis.txt, "
            f"{own.score:.2f}, is {recorded.score:.2f}"
        )


def report_as_json(report: Report) -> dict[str, object]:
    """Return all figures, ready for json.dump."""
    results = results_as_json(report.results)
    is_translation = results.pop("kind") == COMPARISON
    kind, place = ("translation", "comparison") if is_translation else ("parsing", "table")
    return {
        "kind": f"{kind} report",
        place: results,
        "seeds": list(map(asdict, report.results.seeds)),
        "differences": list(map(asdict, report.differences)),
        "diagnoses": {name: diagnosis_as_json(found) for name, found in report.diagnoses.items()},
        "curves": {name: asdict(curves) for name, curves in report.curves.items()},
        **(asdict(report.texts) if report.texts else {}),
    }


def document(report: Report) -> Document:
    """Arrange the page; a section without anything to say is left out."""
    runs = report.results.runs
    firsts = first_seeds(runs, report.results.seeds)
    differences = differences_blocks(report.differences, report.diagnoses)
    sections: dict[str, Sequence[Block]]
    if report.texts is None:
        sections = {
            "Results": details_blocks(runs),
            "Over seeds": over_seeds_blocks(report.results.seeds),
            "Significance": f1_blocks(report.results),
            "Table 4": parsers_blocks(runs),
            "Labels": [labels_table(firsts)],
            "What differs": differences,
            "Learning curves": curves_blocks(report.curves),
        }
    else:
        examples = report.results.examples
        sections = {
            "Results": [measured_table(runs), machines(runs), *caveat(runs), *signatures(runs[0])],
            "Over seeds": over_seeds_blocks(report.results.seeds),
            "Significance": significance_blocks(report.texts, runs[0].sentences),
            "What differs": differences,
            "Learning curves": curves_blocks(report.curves),
            "Lengths": lengths_blocks(runs, report.texts.lengths),
            "Where translations differ most": disagreement_blocks(report.texts.disagreements),
            "Examples": examples_blocks(examples, [run.name for run in firsts]),
            "Rows": rows_blocks(runs),
        }
    sections["How the runs were made"] = how_made(firsts)
    title = " · ".join(run.name for run in runs)
    return Document(title, {title: blocks for title, blocks in sections.items() if blocks})


def significance_blocks(texts: TextFigures, sentences: int) -> list[Block]:
    """Return each run against the first, over resampled test sets and sentence by sentence."""
    if not texts.significance:
        return []
    header = ["", "sacreBLEU", "mean of the samples, 95%", "p", "difference"]
    rows = []
    for name, tested in texts.significance.systems.items():
        p, difference = "", "the one that others are tested against"
        if tested.p_value is not None:
            p, difference = f"{tested.p_value:.3f}", verdict(tested.p_value, sentences)
        samples = f"{tested.mean:.2f} ± {tested.interval:.2f}"
        rows.append([name, f"{tested.score:.2f}", samples, p, difference])
    by_sentence = Table(
        ["sentences by chrF", "better than the first run", "worse", "as good"],
        [
            [name, *(f"{n:,}" for n in (found.better, found.worse, found.even))]
            for name, found in texts.contrasts.items()
        ],
    )
    return [
        Paragraph(f"Paired bootstrap (Koehn, 2004) by sacreBLEU: {MEANING_OF_P}"),
        Table(header, rows),
        Paragraph(["sacreBLEU: ", Code(texts.significance.signature)]),
        by_sentence,
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


def lengths_blocks(runs: Sequence[Run], classes: Sequence[LengthClass]) -> list[Block]:
    """Return BLEU of short and of long sentences, and the lengths of the translations."""
    names = list(classes[0].bleu)
    rows = [
        [length_range(each), f"{each.sentences:,}", *(f"{each.bleu[name]:.2f}" for name in names)]
        for each in classes
    ]
    header = ["", "translation ÷ reference", "brevity penalty", "translation", "reference"]
    lengths = [
        [
            run.name,
            f"{run.translation.bleu.length_ratio:.3f}",
            f"{run.translation.bleu.brevity_penalty:.3f}",
            f"{run.translation.bleu.hypothesis_length:,}",
            f"{run.translation.bleu.reference_length:,}",
        ]
        for run in runs
    ]
    return [
        Figure(
            draw_bleu_by_length(classes),
            "sacreBLEU by the length of the source.",
            Table(["words of the source", "sentences", *names], rows),
        ),
        Paragraph(
            "Lengths in tokens of the paper's BLEU; a ratio below 1 costs the brevity penalty."
        ),
        Table(header, lengths),
    ]


def disagreement_blocks(disagreements: Sequence[Disagreement]) -> list[Block]:
    """Return the sentences whose translations differ most in quality."""
    if not disagreements:
        return []
    text = (
        "Sentences with the largest difference between the best and the worst translation, by "
        "chrF, which stands in brackets."
    )
    examples = [
        example_block(found.example, list(found.chrf), found.chrf) for found in disagreements
    ]
    return [Paragraph(text), *examples]


def examples_blocks(examples: Sequence[Example], names: Sequence[str]) -> list[Block]:
    """Return the sentences at equal distances; nothing if there are none."""
    if not examples:
        return []
    text = Paragraph("Sentences at equal distances in the test set.")
    return [text, *(example_block(example, names) for example in examples)]


def rows_blocks(runs: Sequence[Run]) -> list[Block]:
    """Return sizes and costs of the rows; nothing if the logs do not show one vocabulary."""
    vocabularies = {run.vocabulary for run in runs}
    rows = list(dict.fromkeys(run.settings.row for run in runs if run.settings.row in ROWS))
    vocabulary = vocabularies.pop()
    if vocabularies or not vocabulary or not rows:
        return []
    header, *cells = row_table([ROWS[name] for name in rows], vocabulary)
    return [Table(header, cells), Paragraph(explanation(vocabulary))]

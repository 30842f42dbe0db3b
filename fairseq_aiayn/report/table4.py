"""Table 4, with searches of trained parsers below the paper's, as blocks and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

from fairseq_aiayn.paper import SEMI_SUPERVISED, TABLE_4, WSJ_ONLY
from fairseq_aiayn.report.document import Block, Paragraph, Table
from fairseq_aiayn.report.provenance import how_made, machines
from fairseq_aiayn.report.sections import (
    MEANING_OF_P,
    TRAINING_CELLS,
    column_per_run,
    interval,
    over_seeds_blocks,
    verdict,
)
from fairseq_aiayn.runs.differences import TRAIN, options_of
from fairseq_aiayn.runs.parsing_run import FIGURES, ParsingRun, parsing_run_from_json
from fairseq_aiayn.runs.seeds import OverSeeds, first_seeds, over_seeds
from fairseq_aiayn.scores import CONFIDENCE, SAMPLES_OF_DIFFERENCE, EstimatedDifference
from fairseq_aiayn.text import dataclass_of
from fairseq_aiayn.treebank.evalb import LabelCount, percent

KIND = "table4"  # of results, in JSON
WSJ = ("wsj", "wsj_semi_supervised")  # as the recipe calls the paper's corpora
SECTION_23 = 2_416  # sentences
LABELS = 15  # that are printed


@dataclass(frozen=True)
class Table4:
    """Searches that stand below the paper's parsers."""

    runs: tuple[ParsingRun, ...]
    f1_differences: dict[str, EstimatedDifference]  # of each run from the first, by its name


def _flag(name: str) -> Callable[[ParsingRun], str]:
    """Return a line with the value of an option of fairseq-train."""
    return lambda run: options_of(run.settings.commands.get(TRAIN, "")).get(name, "")


def _score(field: str) -> Callable[[ParsingRun], str]:
    return lambda run: f"{getattr(run.scores.all, field):.2f}"


def _count(value: int) -> str:
    return f"{value:,}" if value else ""


def _tagging_accuracy(run: ParsingRun) -> str:
    """Return a text that is empty if the parser was not taught to tag."""
    return "" if run.trees.tags == "XX" else _score("tagging_accuracy")(run)


def _sentences_per_second(run: ParsingRun) -> str:
    search = run.search
    return f"{search.sentences / search.seconds:.1f}" if search.seconds else ""


_copies = _flag("--upsample-primary")

DETAILS: dict[str, Callable[[ParsingRun], str]] = {
    "row": lambda run: run.settings.row or "",
    "gold trees": lambda run: f"{run.trees.gold:,}",
    "silver trees": lambda run: _count(run.trees.silver),
    "phrases and pairs of gold trees": lambda run: _count(run.trees.augmented),
    "copies of the gold trees": lambda run: (
        _copies(run) if run.trees.silver or run.trees.augmented else ""
    ),
    "in a word's place": lambda run: run.trees.tags,
    "word pieces": lambda run: f"{run.vocabulary:,}" if run.vocabulary else "",
    "dropout": _flag("--dropout"),
    "attention dropout": _flag("--attention-dropout"),
    **TRAINING_CELLS,
    "recall": _score("recall"),
    "precision": _score("precision"),
    "F1": _score("f1"),
    "F1, at most {cutoff} words": lambda run: f"{run.scores.short.f1:.2f}",
    "complete match, %": _score("complete_match"),
    "crossing brackets per sentence": _score("average_crossing"),
    "no crossing brackets, %": _score("no_crossing"),
    "tagging accuracy": _tagging_accuracy,
    "errors of EVALB, which do not count": lambda run: f"{run.scores.all.errors:,}",
    "well-formed before repair, %": lambda run: f"{run.repairs.share_well_formed:.2f}",
}


def summary_blocks(table: Table4) -> list[Block]:
    """Return the table, what must be known to read it, and the details of each run."""
    runs = table.runs
    return [
        parsers_table(runs),
        *caveat(runs),
        *over_seeds_blocks(_seeds(table)),
        *significance_blocks(table),
        details_table(runs),
        evalb_parameters(runs),
        machines(runs),
    ]


def full_blocks(table: Table4) -> list[Block]:
    """Return the summary, the table of labels, and how each run was made."""
    runs = first_seeds(table.runs, _seeds(table))
    return [*summary_blocks(table), labels_table(runs), *how_made(runs)]


def as_json(table: Table4) -> dict:
    """Return all of a table, ready for json.dump."""
    return {"kind": KIND, **asdict(table)}


def from_json(content: Mapping, where: object) -> Table4:
    """Make a Table4 of what `as_json` returns.

    Raises KeyError, TypeError or ValueError for anything else.
    """
    return Table4(
        tuple(parsing_run_from_json(run, where) for run in content["runs"]),
        {
            name: dataclass_of(one, EstimatedDifference, where)
            for name, one in content["f1_differences"].items()
        },
    )


def parsers_table(runs: Sequence[ParsingRun]) -> Table:
    """Return the paper's Table 4 with a row per run below it."""
    rows = [[row.parser, row.training, f"{row.f1:.1f}", ""] for row in TABLE_4]
    rows += [[run.name, _training_of(run), "", _score("f1")(run)] for run in runs]
    return Table(["parser", "training", "F1, paper", "F1, ours"], rows, left=2)


def caveat(runs: Sequence[ParsingRun]) -> list[Block]:
    """Return what was parsed if it is not the paper's test set."""
    others = dict.fromkeys(_parsed(run) for run in runs if not _is_section_23(run))
    if not others:
        return []
    paper = f"section 23 of the WSJ, {SECTION_23:,} sentences"
    ours = " and of ".join(others)
    return [Paragraph(f"The paper's F1 is of {paper}; ours is of {ours}: they do not compare.")]


def significance_blocks(table: Table4) -> list[Block]:
    """Return each search against the first, over resampled sentences; nothing for one search."""
    if not table.f1_differences:
        return []
    first = table.runs[0]
    rows = [
        [
            name,
            f"{one.difference:+.2f}",
            interval(one),
            f"{one.p_value:.4f}",
            verdict(one.p_value, first.sentences),
        ]
        for name, one in table.f1_differences.items()
    ]
    header = [
        f"F1 against {first.name}",
        "difference",
        f"{CONFIDENCE:.0%} interval",
        "p",
        "verdict",
    ]
    text = f"Paired bootstrap (Koehn, 2004) over {SAMPLES_OF_DIFFERENCE:,} samples: {MEANING_OF_P}"
    return [Table(header, rows), Paragraph(text)]


def details_table(runs: Sequence[ParsingRun]) -> Table:
    """Return a column per run with its training, its scores and its repairs."""
    cutoff = runs[0].scores.cutoff
    repairs = dict.fromkeys(name for run in runs for name in run.repairs.repairs)
    lines = {
        **{label.format(cutoff=cutoff): cell for label, cell in DETAILS.items()},
        **{f"repairs: {name}": _repairs(name) for name in repairs},
        "sentences parsed/s": _sentences_per_second,
    }
    return column_per_run(runs, lines)


def evalb_parameters(runs: Sequence[ParsingRun]) -> Paragraph:
    """Return the parameters of EVALB, which all runs were scored with."""
    return Paragraph(f"Parameters of EVALB: {runs[0].scores.parameters}")


def labels_table(runs: Sequence[ParsingRun]) -> Table:
    """Return recall, precision and F1 of the labels that are most frequent in the gold trees."""
    header = ["label", "gold"]
    for run in runs:
        header += [f"{what}, {run.name}" for what in ("recall", "precision", "F1")]
    gold = {label: counts.gold for label, counts in runs[0].scores.labels.items()}
    rows = []
    for label in sorted(gold, key=lambda label: (-gold[label], label))[:LABELS]:
        rows.append([label, f"{gold[label]:,}"])
        for run in runs:
            counts = run.scores.labels.get(label, LabelCount(0, 0, 0))
            rows[-1] += [
                f"{percent(counts.matched, counts.gold):.2f}",
                f"{percent(counts.matched, counts.predicted):.2f}",
                f"{percent(2 * counts.matched, counts.gold + counts.predicted):.2f}",
            ]
    return Table(header, rows)


def _seeds(table: Table4) -> list[OverSeeds]:
    return over_seeds(table.runs, FIGURES)


def _repairs(name: str) -> Callable[[ParsingRun], str]:
    return lambda run: _count(run.repairs.repairs.get(name, 0))


def _training_of(run: ParsingRun) -> str:
    """Return what a run was trained on, in the paper's words if it is the paper's corpus."""
    trees, corpus = run.trees, run.settings.corpus or "not recorded"
    if corpus in WSJ:
        corpus = SEMI_SUPERVISED if trees.silver else WSJ_ONLY
    silver = f", {trees.silver:,} silver" if trees.silver else ""
    return f"{corpus}: {trees.gold:,} gold{silver} sentences"


def _parsed(run: ParsingRun) -> str:
    """Return what a run parsed."""
    settings = run.settings
    return (
        f"corpus {settings.corpus or 'not recorded'}, subset {settings.subset or 'not recorded'}, "
        f"{run.sentences:,} sentences"
    )


def _is_section_23(run: ParsingRun) -> bool:
    """Say whether a run parsed the paper's test set."""
    settings = run.settings
    return (settings.corpus in WSJ, settings.subset, run.sentences) == (True, "test", SECTION_23)

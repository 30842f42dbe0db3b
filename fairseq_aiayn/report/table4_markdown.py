"""Table 4 as Markdown, what runs measured under the paper's figures, and as JSON."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict

from fairseq_aiayn.files.markdown_table import aligned_table
from fairseq_aiayn.paper import TABLE_4
from fairseq_aiayn.report.provenance import how_made, machines
from fairseq_aiayn.report.table4 import (
    SECTION_23,
    Table4,
    is_section_23,
    most_frequent_labels,
    parsed,
    training_of,
)
from fairseq_aiayn.report.training_cells import TRAINING_CELLS
from fairseq_aiayn.runs.parsing_run import FIGURES, ParsingRun, parsing_run_from_json
from fairseq_aiayn.runs.seeds import means_over_seeds
from fairseq_aiayn.treebank.evalb.sentence import percent
from fairseq_aiayn.treebank.evalb.summary import LabelCount

KIND = "table4"  # of results, in JSON
LABELS = 15  # of the report


def _flag(name: str) -> Callable[[ParsingRun], str]:
    """The value of an option of fairseq-train: of several, as fairseq does, the last."""
    option = re.compile(rf"(?<!\S){name}[ =](\S+)")

    def cell(run: ParsingRun) -> str:
        return ["", *option.findall(run.settings.commands.get("train", ""))][-1]

    return cell


def _score(field: str) -> Callable[[ParsingRun], str]:
    return lambda run: f"{getattr(run.scores.all, field):.2f}"


def _count(value: int, unsaid: int) -> str:
    return "" if value == unsaid else f"{value:,}"


def _tagging_accuracy(run: ParsingRun) -> str:
    """Nothing where the parser was not taught to tag."""
    return "" if run.trees.tags == "XX" else _score("tagging_accuracy")(run)


def _sentences_per_second(run: ParsingRun) -> str:
    search = run.search
    return f"{search.sentences / search.seconds:.1f}" if search.seconds else ""


_copies = _flag("--upsample-primary")

# Lines that are empty for every run are left out.
DETAILS: dict[str, Callable[[ParsingRun], str]] = {
    "row": lambda run: run.settings.row or "",
    "gold trees": lambda run: f"{run.trees.gold:,}",
    "silver trees": lambda run: _count(run.trees.silver, 0),
    "copies of the gold trees": lambda run: _copies(run) if run.trees.silver else "",
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
    "crossing brackets a sentence": _score("average_crossing"),
    "no crossing brackets, %": _score("no_crossing"),
    "tagging accuracy": _tagging_accuracy,
    "errors of EVALB, which do not count": lambda run: f"{run.scores.all.errors:,}",
    "well-formed before repair, %": lambda run: f"{run.repairs.share_well_formed:.2f}",
}


def markdown(table: Table4) -> str:
    """Return the table, what must be known to read it, and a table with a column a run."""
    runs = table.runs
    lines = [*aligned_table(parser_cells(runs), left=2), *caveat(runs)]
    lines += ["", *aligned_table(detail_cells(runs)), *means_over_seeds(runs, FIGURES)]
    lines += ["", f"Parameters of EVALB: {runs[0].scores.parameters}", "", *machines(runs)]
    return "\n".join(lines) + "\n"


def report(table: Table4) -> str:
    """Return the table with that of the labels, and for each run a section on how it was made."""
    sections = [aligned_table(label_cells(table.runs)), *(how_made(run) for run in table.runs)]
    return markdown(table) + "".join("\n".join(["", *lines]) + "\n" for lines in sections)


def as_json(table: Table4) -> dict:
    """Return all of a table, ready for json.dump."""
    return {"kind": KIND, **asdict(table)}


def from_json(content: Mapping, where: object) -> Table4:
    """Make a Table4 of what `as_json` returned; KeyError, TypeError or ValueError if it is not."""
    return Table4(tuple(parsing_run_from_json(run, where) for run in content["runs"]))


def parser_cells(runs: Sequence[ParsingRun]) -> list[list[str]]:
    """Return Table 4's rows, and the runs' below them, under a header."""
    cells = [["parser", "training", "F1, paper", "F1, ours"]]
    cells += [[row.parser, row.training, f"{row.f1:.1f}", ""] for row in TABLE_4]
    cells += [[run.name, training_of(run), "", _score("f1")(run)] for run in runs]
    return cells


def caveat(runs: Sequence[ParsingRun]) -> list[str]:
    """Say so where another set than the paper's was parsed."""
    others = dict.fromkeys(parsed(run) for run in runs if not is_section_23(run))
    if not others:
        return []
    paper = f"section 23 of the WSJ, {SECTION_23:,} sentences"
    ours = " and of ".join(others)
    return ["", f"The paper's F1 is of {paper}; ours is of {ours}: they do not compare."]


def detail_cells(runs: Sequence[ParsingRun]) -> list[list[str]]:
    """Return a column a run under a header; lines that are empty for every run are left out."""
    cutoff = runs[0].scores.cutoff
    repairs = dict.fromkeys(name for run in runs for name in run.repairs.repairs)
    lines = {
        **{label.format(cutoff=cutoff): cell for label, cell in DETAILS.items()},
        **{f"repairs: {name}": _repairs(name) for name in repairs},
        "sentences parsed/s": _sentences_per_second,
    }
    cells = [["", *(run.name for run in runs)]]
    cells += [[label, *map(cell, runs)] for label, cell in lines.items()]
    return [row for row in cells if any(row[1:])]


def _repairs(name: str) -> Callable[[ParsingRun], str]:
    return lambda run: _count(run.repairs.repairs.get(name, 0), 0)


def label_cells(runs: Sequence[ParsingRun]) -> list[list[str]]:
    """Return the labels that the gold trees have most often, under a header."""
    cells = [["label", "gold"]]
    for run in runs:
        cells[0] += [f"{what}, {run.name}" for what in ("recall", "precision", "F1")]
    for label in most_frequent_labels(runs, LABELS):
        cells.append([label, f"{runs[0].scores.labels[label].gold:,}"])
        for run in runs:
            counts = run.scores.labels.get(label, LabelCount(0, 0, 0))
            cells[-1] += [
                f"{percent(counts.matched, counts.gold):.2f}",
                f"{percent(counts.matched, counts.predicted):.2f}",
                f"{percent(2 * counts.matched, counts.gold + counts.predicted):.2f}",
            ]
    return cells

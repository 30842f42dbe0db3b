"""A comparison of runs as Markdown and as JSON; what is in it comes from comparison.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

from fairseq_aiayn.evaluation.comparison import Comparison, Example, Run, run_from_json
from fairseq_aiayn.evaluation.conditions import conditions_of, differences
from fairseq_aiayn.evaluation.markdown_table import aligned_table
from fairseq_aiayn.evaluation.provenance import clock, how_made, machines, signatures
from fairseq_aiayn.evaluation.published import published
from fairseq_aiayn.paper import ROWS, Published, Row

KIND = "comparison"  # of results, in JSON


@dataclass(frozen=True)
class Line:
    """One line of the table: of a run, and of what the paper prints."""

    label: str
    measured: Callable[[Run], str]
    printed: Callable[[Row, Published], str] = lambda row, paper: ""


LINES = (
    Line(
        "parameters",
        lambda run: f"{run.training.parameters:,}",
        lambda row, paper: f"{paper.parameters} × 10⁶" if paper.parameters else "",
    ),
    Line(
        "updates",
        lambda run: f"{run.training.updates:,}",
        lambda row, paper: f"{row.steps:,}",
    ),
    Line("target tokens/s in training", lambda run: f"{run.training.tokens_per_second:,.0f}"),
    Line("seconds of training", lambda run: f"{run.training.seconds:,.0f}"),
    Line("wall time of training", lambda run: clock(run.training.wall_seconds)),
    Line(
        "development perplexity",
        lambda run: f"{run.dev_perplexity:.2f}",
        lambda row, paper: f"{paper.ppl:.2f}" if paper.ppl else "",
    ),
    Line(
        "BLEU as the paper's",
        lambda run: f"{run.bleu['score']:.2f}",
        lambda row, paper: f"{paper.bleu:.1f}" if paper.bleu else "",
    ),
    Line("sacreBLEU", lambda run: f"{run.sacrebleu['score']:.2f}"),
)


def markdown(comparison: Comparison) -> str:
    """Return the table with a column a run, and the paper's if it prints anything of them all;
    signatures, machines, in what the runs differ from the paper's, and examples."""
    runs = comparison.runs
    settings, paper = runs[0].settings, _paper(runs)
    cells = [["", *(run.name for run in runs)]]
    cells += [[line.label, *(line.measured(run) for run in runs)] for line in LINES]
    if paper:
        column = ["paper", *(line.printed(ROWS[settings.row], paper) for line in LINES)]
        cells = [[*row, cell] for row, cell in zip(cells, column, strict=True)]
    lines = [*aligned_table(cells), "", *signatures(runs[0]), "", *machines(runs)]
    if paper:
        row = ROWS[settings.row]
        lines += differences(runs, conditions_of(row, settings.corpus, settings.subset))
    for example in comparison.examples:
        lines += ["", f"Sentence {example.sentence}", ""]
        texts = {"source": example.source, "reference": example.reference}
        lines += [f"- {name}: {text}" for name, text in (texts | example.translations).items()]
    return "\n".join(lines) + "\n"


def report(comparison: Comparison) -> str:
    """Return the table, and for each run a section on how it was made."""
    sections = (["", *how_made(run)] for run in comparison.runs)
    return markdown(comparison) + "".join("\n".join(lines) + "\n" for lines in sections)


def as_json(comparison: Comparison) -> dict:
    """Return all of a comparison but the texts, ready for json.dump."""
    return {"kind": KIND, **asdict(comparison)}


def from_json(content: Mapping, where: object) -> Comparison:
    """Make a Comparison of what `as_json` returned; KeyError or TypeError if it is not."""
    return Comparison(
        tuple(run_from_json(run, where) for run in content["runs"]),
        tuple(Example(**example) for example in content["examples"]),
    )


def _paper(runs: Sequence[Run]) -> Published | None:
    """Return what the paper prints if the runs are all of one row, corpus and subset."""
    kinds = {(run.settings.row, run.settings.corpus, run.settings.subset) for run in runs}
    return published(*kinds.pop()) if len(kinds) == 1 else None

"""A comparison of runs as Markdown and as JSON; what is in it comes from comparison.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict

from fairseq_aiayn.files.markdown_table import aligned_table, as_text, literal
from fairseq_aiayn.paper import Published, Row
from fairseq_aiayn.report.provenance import how_made, machines, signatures
from fairseq_aiayn.report.training_cells import TRAINING_CELLS
from fairseq_aiayn.rows import ROWS
from fairseq_aiayn.runs.paper_conditions import conditions_of, differences
from fairseq_aiayn.runs.published import published
from fairseq_aiayn.runs.seeds import means_over_seeds
from fairseq_aiayn.runs.translation_run import (
    Comparison,
    Example,
    Run,
    figures_of,
    run_from_json,
)

KIND = "comparison"  # of results, in JSON


MEASURED: dict[str, Callable[[Run], str]] = {
    **TRAINING_CELLS,
    "BLEU as the paper's": lambda run: f"{run.bleu['score']:.2f}",
    "sacreBLEU": lambda run: f"{run.sacrebleu['score']:.2f}",
    "BLEU of tokens": lambda run: f"{run.token_bleu['score']:.2f}" if run.token_bleu else "",
}


def markdown(comparison: Comparison) -> str:
    """Return the table with a column a run, and the paper's if it prints anything of them all;
    signatures, machines, in what the runs differ from the paper's, and examples."""
    runs = comparison.runs
    lines = [*aligned_table(measured_cells(runs)), *means_over_seeds(runs, figures_of(runs))]
    lines += ["", *signatures(runs[0]), "", *machines(runs)]
    lines += caveat(runs)
    for example in comparison.examples:
        lines += ["", f"Sentence {example.sentence}", ""]
        texts = {"source": example.source, "reference": example.reference}
        texts |= example.translations
        lines += [f"- {as_text(name)}: {literal(text)}" for name, text in texts.items()]
    return "\n".join(lines) + "\n"


def measured_cells(runs: Sequence[Run]) -> list[list[str]]:
    """Return the table's rows under a header; lines that are empty for every run are left out."""
    paper = _paper(runs)
    cells = [["", *(run.name for run in runs)]]
    cells += [[label, *map(measured, runs)] for label, measured in MEASURED.items()]
    cells = [row for row in cells if any(row[1:])]
    if not paper and any(map(_printed_bleu, runs)):
        cells.append(["BLEU, the paper's own", *map(_printed_bleu, runs)])
    if paper:
        column = {"": "paper", **_printed(ROWS[runs[0].settings.row], paper)}
        cells = [[*row, column.get(row[0], "")] for row in cells]
    return cells


def caveat(runs: Sequence[Run]) -> list[str]:
    """Say in what runs differ from the paper's; nothing where it prints nothing of them."""
    if not _paper(runs):
        return []
    settings = runs[0].settings
    paper = conditions_of(ROWS[settings.row], settings.corpus, settings.subset)
    return differences(runs, paper)


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


def _printed_bleu(run: Run) -> str:
    """What the paper prints of a run's own row and corpus."""
    settings = run.settings
    paper = published(settings.row, settings.corpus, settings.subset)
    return f"{paper.bleu:.1f}" if paper and paper.bleu else ""


def _printed(row: Row, paper: Published) -> dict[str, str]:
    """Return what the paper prints beside some of the lines."""
    return {
        "parameters": f"{paper.parameters} × 10⁶" if paper.parameters else "",
        "updates": f"{row.steps:,}",
        "development perplexity": f"{paper.ppl:.2f}" if paper.ppl else "",
        "BLEU as the paper's": f"{paper.bleu:.1f}" if paper.bleu else "",
    }

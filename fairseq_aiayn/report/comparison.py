"""Translation models side by side, beside the paper's figures (Table 2), as blocks and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict

from fairseq_aiayn.paper import ROWS, Published, Row
from fairseq_aiayn.report.document import Block, Paragraph, Table, Texts
from fairseq_aiayn.report.provenance import how_made, machines
from fairseq_aiayn.report.sections import TRAINING_CELLS, column_per_run, over_seeds_blocks
from fairseq_aiayn.runs.paper_conditions import conditions_of, unmet_conditions
from fairseq_aiayn.runs.published import OTHER_MEASURE, published
from fairseq_aiayn.runs.seeds import OverSeeds, first_seeds, over_seeds
from fairseq_aiayn.runs.translation_run import Comparison, Example, Run, figures_of, run_from_json

KIND = "comparison"  # of results, in JSON

MEASURED: dict[str, Callable[[Run], str]] = {
    **TRAINING_CELLS,
    "BLEU as the paper's": lambda run: f"{run.bleu.score:.2f}",
    "sacreBLEU": lambda run: f"{run.sacrebleu.score:.2f}",
    "BLEU of tokens": lambda run: f"{run.token_bleu.score:.2f}" if run.token_bleu else "",
}


def summary_blocks(comparison: Comparison) -> list[Block]:
    """Return the table with what must be known to read it, and the examples."""
    runs, seeds = comparison.runs, _seeds(comparison)
    names = [run.name for run in first_seeds(runs, seeds)]
    return [
        *over_seeds_blocks(seeds),
        measured_table(runs),
        *signatures(runs[0]),
        machines(runs),
        *caveat(runs),
        *(example_block(example, names) for example in comparison.examples),
    ]


def full_blocks(comparison: Comparison) -> list[Block]:
    """Return the summary, and how each run was made."""
    runs = first_seeds(comparison.runs, _seeds(comparison))
    return [*summary_blocks(comparison), *how_made(runs)]


def measured_table(runs: Sequence[Run]) -> Table:
    """Return a column per run, with the paper's figures of their rows where it prints any."""
    table, paper = column_per_run(runs, MEASURED), _paper(runs)
    if paper:
        printed = _printed(ROWS[runs[0].settings.row], paper)
        rows = [[*row, printed.get(row[0], "")] for row in table.rows]
        return Table([*table.header, "paper"], rows)
    bleus = [_printed_bleu(run) for run in runs]
    row_of_bleus = [["BLEU, the paper's own", *bleus]] if any(bleus) else []
    return Table(table.header, [*table.rows, *row_of_bleus])


def signatures(run: Run) -> list[Block]:
    """Return how the run, and each run beside it, was scored."""
    scores = {
        "Paper's BLEU": run.bleu,
        "sacreBLEU": run.sacrebleu,
        "BLEU of tokens": run.token_bleu,
    }
    return [Paragraph(f"{name}: `{score.signature}`") for name, score in scores.items() if score]


def caveat(runs: Sequence[Run]) -> list[Block]:
    """Return what to know before comparing runs with the paper's figures beside them: which
    conditions differ, and that sacreBLEU is another measure. Nothing if no figure is beside them.
    """
    by_kind: dict[tuple, list[Run]] = {}
    for run in runs:
        if published(*_kind(run)):
            by_kind.setdefault(_kind(run), []).append(run)
    found = {}
    for (row, corpus, subset), alike in by_kind.items():
        found[row] = unmet_conditions(alike, conditions_of(ROWS[row], corpus, subset))
    several = len(by_kind) > 1
    texts = [f"Row {row}: {text}" if several else text for row, text in found.items() if text]
    measures = [OTHER_MEASURE] if any(map(_printed_bleu, runs)) else []
    return [Paragraph(text) for text in (*texts, *measures)]


def example_block(
    example: Example, names: Sequence[str], chrf: Mapping[str, float] | None = None
) -> Texts:
    """Return a sentence with the translations of these runs; the chrF of each, if given, stands in
    brackets."""
    texts = [("source", example.source), ("reference", example.reference)]
    for name in names:
        translation = example.translations[name]
        texts.append((f"{name} ({chrf[name]:.1f})" if chrf else name, translation))
    return Texts(f"Sentence {example.sentence:,}", texts)


def as_json(comparison: Comparison) -> dict:
    """Return a comparison, with no texts except its examples, ready for json.dump."""
    return {"kind": KIND, **asdict(comparison)}


def from_json(content: Mapping, where: object) -> Comparison:
    """Make a Comparison of what `as_json` returns; raises KeyError or TypeError otherwise."""
    return Comparison(
        tuple(run_from_json(run, where) for run in content["runs"]),
        tuple(Example(**example) for example in content["examples"]),
    )


def _seeds(comparison: Comparison) -> list[OverSeeds]:
    runs = comparison.runs
    return over_seeds(runs, figures_of(runs))


def _paper(runs: Sequence[Run]) -> Published | None:
    """Return what the paper prints if the runs are all of one row, corpus and subset."""
    kinds = set(map(_kind, runs))
    return published(*kinds.pop()) if len(kinds) == 1 else None


def _kind(run: Run) -> tuple[str | None, str | None, str | None]:
    """Return row, corpus and subset, which the paper's figures are of."""
    return run.settings.row, run.settings.corpus, run.settings.subset


def _printed_bleu(run: Run) -> str:
    """Return the BLEU that the paper prints of a run's own row and corpus."""
    paper = published(*_kind(run))
    return f"{paper.bleu:.1f}" if paper and paper.bleu else ""


def _printed(row: Row, paper: Published) -> dict[str, str]:
    """Return what the paper prints, by the label of the line that it belongs to."""
    return {
        "parameters": f"{paper.parameters} × 10⁶" if paper.parameters else "",
        "updates": f"{row.steps:,}",
        "development perplexity": f"{paper.ppl:.2f}" if paper.ppl else "",
        "BLEU as the paper's": f"{paper.bleu:.1f}" if paper.bleu else "",
    }

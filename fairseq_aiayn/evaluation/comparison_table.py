"""A comparison of runs as Markdown and as JSON; what is in it comes from comparison.py."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict

from fairseq_aiayn.evaluation.comparison import Example, Run

ROWS: dict[str, Callable[[Run], str]] = {
    "parameters": lambda run: f"{run.training.parameters:,}",
    "updates": lambda run: f"{run.training.updates:,}",
    "target tokens/s in training": lambda run: f"{run.training.tokens_per_second:,.0f}",
    "seconds of training": lambda run: f"{run.training.seconds:,.0f}",
    "development perplexity": lambda run: f"{run.dev_perplexity:.2f}",
    "BLEU as the paper's": lambda run: f"{run.bleu['score']:.2f}",
    "sacreBLEU": lambda run: f"{run.sacrebleu['score']:.2f}",
}


def markdown(runs: Sequence[Run], examples: Sequence[Example]) -> str:
    """Return the table with a column a run, the signatures and the examples."""
    cells = [["", *(run.name for run in runs)]]
    cells += [[label, *(value(run) for run in runs)] for label, value in ROWS.items()]
    lines = _aligned(cells)
    lines += ["", f"Paper's BLEU: `{runs[0].bleu['signature']}`", ""]
    lines += [f"sacreBLEU: `{runs[0].sacrebleu['signature']}`", "", _machine(runs[0])]
    for example in examples:
        lines += ["", f"Sentence {example.sentence}", ""]
        lines += _aligned_list(
            {"source": example.source, "reference": example.reference, **example.translations}
        )
    return "\n".join(lines) + "\n"


def as_json(runs: Sequence[Run], examples: Sequence[Example]) -> dict:
    """Return all of a comparison but the texts, ready for json.dump."""
    return {
        "runs": [
            {
                "name": run.name,
                **asdict(run.training),
                "dev_perplexity": run.dev_perplexity,
                "bleu": run.bleu,
                "sacrebleu": run.sacrebleu,
                "settings": run.settings,
            }
            for run in runs
        ],
        "examples": [asdict(example) for example in examples],
    }


def _machine(run: Run) -> str:
    """Say on what the run was made, as far as its settings know."""
    hardware, packages = run.settings.get("hardware", {}), run.settings.get("packages", {})
    gpus = hardware.get("gpus") if run.settings.get("device") == "cuda" else None
    place = (
        " and ".join(gpus)
        if gpus
        else f"{hardware.get('processor')}, {hardware.get('cores')} cores"
    )
    versions = ", ".join(
        f"{name} {version}"
        for name, version in packages.items()
        if "fairseq" in name or name == "torch"
    )
    return f"{len(run.source):,} test sentences; trained on {place}; {versions}"


def _aligned(cells: Sequence[Sequence[str]]) -> list[str]:
    """Lay out a Markdown table under its first row; all columns but the first hold numbers."""
    widths = [max(3, *map(len, column)) for column in zip(*cells)]
    lines = [
        _row(
            [
                cell.ljust(w) if k == 0 else cell.rjust(w)
                for k, (cell, w) in enumerate(zip(row, widths))
            ]
        )
        for row in cells
    ]
    rule = _row(["-" * w if k == 0 else "-" * (w - 1) + ":" for k, w in enumerate(widths)])
    return [lines[0], rule, *lines[1:]]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _aligned_list(items: dict[str, str]) -> list[str]:
    return [f"- {name}: {text}" for name, text in items.items()]

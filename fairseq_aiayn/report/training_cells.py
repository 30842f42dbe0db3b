"""What tables with a column a run say of every training."""

from __future__ import annotations

from collections.abc import Callable

from fairseq_aiayn.report.provenance import clock
from fairseq_aiayn.runs.run_directory import TrainedRun


def _count(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


TRAINING_CELLS: dict[str, Callable[[TrainedRun], str]] = {
    "parameters": lambda run: f"{run.training.parameters:,}",
    "updates": lambda run: f"{run.training.updates:,}",
    "target tokens/s in training": lambda run: f"{run.training.tokens_per_second:,.0f}",
    "seconds of training": lambda run: f"{run.training.seconds:,.0f}",
    "wall time of training": lambda run: clock(run.training.wall_seconds),
    "peak memory of training, MiB": lambda run: _count(run.training.peak_memory),
    "peak GPU memory of training, MiB": lambda run: _count(run.training.peak_gpu_memory),
    "development perplexity": lambda run: f"{run.dev_perplexity:.2f}",
}

"""Measure the peak memory of a training step of this package's models and of stock fairseq's.

fairseq-train itself runs in one process per system and precision; they train in turns on the same
data. On a CPU, the peak is the kernel's high-water mark of the resident set, reset before every
turn, minus what the process held before the model was built: Python, PyTorch, fairseq. The peak of
the whole process is printed, too. On a GPU, the peak is PyTorch's count of the tensors' memory.

examples:
    python benchmarks/memory.py --json memory.json       tiny and base: 4 minutes on two cores
    python benchmarks/memory.py --row tiny --precision float32               a trial, 1 minute
    python benchmarks/memory.py --device cuda --row base big --max-tokens 4096
"""

from __future__ import annotations

from functools import partial

from comparison import run_comparison
from findings import MEMORY, Finding
from sides import Side
from spreads import spread
from training_turns import RowTurns, compare_rows, parse_training, training_parser

from fairseq_aiayn.files.text_table import aligned_lines

WHOLE = "peak memory of the process"
HEAD = ["peak MiB of a step", "of the process", "held before the model"]


def findings_of(measured: RowTurns) -> list[Finding]:
    """Return the ratios of a row."""
    found = []
    for side in measured.ours:
        found.append(measured.compared(MEMORY, side, partial(steps, measured)))
        found.append(measured.compared(WHOLE, side, partial(peaks, measured)))
    return found


def peaks(measured: RowTurns, side: Side) -> list[float]:
    """Return the MiB of every turn."""
    return measured.figures(side, lambda turn: turn["peak_mib"])


def steps(measured: RowTurns, side: Side) -> list[float]:
    """Return the MiB of every turn, without what the process held before the model was built."""
    return [peak - measured.held_before[side.name] for peak in peaks(measured, side)]


def table(measured: RowTurns) -> str:
    """Return the measurements of each side as text."""
    rows = [["", *HEAD]]
    for side in measured.sides:
        step, whole = spread(steps(measured, side)), spread(peaks(measured, side))
        held = f"{measured.held_before[side.name]:,.0f}"
        rows.append([side.name, str(step), str(whole), held])
    return "\n".join(aligned_lines(rows))


def main() -> None:
    parser = training_parser(__doc__, turns=2, updates=4)
    parser.set_defaults(starts=1)
    run_comparison(partial(compare_rows, table, findings_of), parse_training(parser))


if __name__ == "__main__":
    main()

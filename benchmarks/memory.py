"""Measure the peak memory of a training step of this package's models and of stock fairseq's.

fairseq-train itself runs in one process per system and precision; they train in turns on the same
data. On a CPU, the peak is the kernel's high-water mark of the resident set, reset before every
turn, minus what the process held before the model was built: Python, PyTorch, fairseq. The peak of
the whole process is printed, too. On a GPU, the peak is PyTorch's count of the tensors' memory.

examples:
    python benchmarks/memory.py --json memory.json       tiny and base: 4 minutes on two cores
    python benchmarks/memory.py --row tiny --precision float32               a trial, 1 minute
    python benchmarks/memory.py --device cuda --row base big --max-tokens 4096
    python benchmarks/memory.py --against ../before --precision float32      another checkout
"""

from __future__ import annotations

import argparse
from functools import partial

from side_by_side import Finding, aligned_lines, finding, ratios, run_comparison, spread
from sides import Side
from targets import MEMORY
from training_turns import RowTurns, compare_rows, parse_training

WHOLE = "peak memory of the process"
HEAD = ["peak MiB of a step", "of the process", "held before the model"]


def steps(measured: RowTurns, side: Side) -> list[float]:
    """Return the MiB of every turn, without what the process held before the model was built."""
    return [peak - measured.held_before[side.name] for peak in measured.values(side, "peak")]


def findings_of(measured: RowTurns, arguments: argparse.Namespace) -> list[Finding]:
    """Return the ratios of a row."""
    found = []
    for side in measured.ours:
        rival = measured.rival(side)
        subject, unit = f"{measured.row} {side.precision}", f"{side.label} ÷ {rival.name}"
        kind = (arguments, measured.row, side.precision)
        step = ratios(steps(measured, side), steps(measured, rival))
        whole = ratios(measured.values(side, "peak"), measured.values(rival, "peak"))
        found.append(finding(MEMORY, subject, unit, step, *kind))
        found.append(finding(WHOLE, subject, unit, whole, *kind))
    return found


def table(measured: RowTurns) -> str:
    """Return the measurements of each side as text."""
    rows = [["", *HEAD]]
    for side in (*measured.rivals, *measured.ours):
        peaks = (steps(measured, side), measured.values(side, "peak"))
        held = f"{measured.held_before[side.name]:,.0f}"
        rows.append([side.name, *(str(spread(values)) for values in peaks), held])
    return "\n".join(aligned_lines(rows))


def main() -> None:
    arguments = parse_training(__doc__, turns=2, updates=4, starts=1)
    compare = partial(compare_rows, table=table, findings=findings_of)
    run_comparison("memory", compare, arguments)


if __name__ == "__main__":
    main()

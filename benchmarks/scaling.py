"""Measure how the time of a training step and of decoding grows, compared with stock fairseq.

Training varies sentence length, vocabulary and batch; decoding varies beam, sentence length and
batch; one at a time. Models have their initial weights, batches are synthetic and without padding,
and all decoded outputs have the same length. The systems take turns at every size. Growth is the
time at the largest size divided by that at the smallest; ours must not exceed stock's by more than
a tenth.

examples:
    python benchmarks/scaling.py --json scaling.json --png scaling.png    4 minutes on two cores
    python benchmarks/scaling.py --points 2 --turns 1                     a trial
    python benchmarks/scaling.py --device cuda --row base --png scaling.png
"""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from dataclasses import asdict

from comparison import run_comparison
from comparison_options import add_count, add_row, comparison_parser, new_file
from findings import GROWTH, Finding, find_target, finding
from scaling_curves import Curve, Times, curves
from scaling_plot import draw
from sides import Side, translating_sides
from spreads import ratios, spread
from workers import Worker, alternate, start

from fairseq_aiayn.text import aligned_lines

BATCH_TOKENS = 1_000  # in the trainer's options; batches come from the orders
UPDATES = 1_000_000  # more than a turn makes


def compare(arguments: argparse.Namespace) -> tuple[str, list[Finding], dict[str, object]]:
    """Measure the curves, and draw them if requested; OSError or ValueError if a side fails."""
    stock, ours = sides = translating_sides(arguments.device)
    with ExitStack() as running:
        workers = [running.enter_context(worker(side, arguments)) for side in sides]
        measured = [measure(curve, workers, arguments) for curve in curves(arguments.device)]
    found = [
        finding(
            *(GROWTH, times.curve.title, f"{ours.system} ÷ {stock.name}"),
            ratios(times.growth(ours.name), times.growth(stock.name)),
            find_target(GROWTH, arguments.device),
        )
        for times in measured
    ]
    if arguments.png:
        shown = f"median of {arguments.turns} turns, between the lowest and the highest"
        title = f"row {arguments.row}, {ours.precision}, {arguments.device}; {shown}"
        draw(arguments.png, measured, title)
    tables = "\n\n".join(table(times, ours, stock) for times in measured)
    return tables, found, {"curves": [record(times) for times in measured]}


def record(times: Times) -> dict[str, object]:
    """Return a curve's figures for JSON."""
    return {
        "title": times.curve.title,
        "axis": times.curve.axis,
        "seconds": times.seconds,
        "growth": {name: times.growth(name) for name in next(iter(times.seconds.values()))},
    }


def worker(side: Side, arguments: argparse.Namespace) -> Worker:
    """Start a system that trains and decodes as ordered."""
    options = side.training_options(arguments.row, BATCH_TOKENS, UPDATES)
    return start(side.name, "scaling_worker.py", options, arguments)


def measure(curve: Curve, workers: list[Worker], arguments: argparse.Namespace) -> Times:
    """Let the workers do the work of every point in turns."""
    times = Times(curve, {})
    for size, work in list(curve.points.items())[: arguments.points]:
        title = f"{curve.title} {size:,}"
        answers = alternate(workers, arguments.turns, asdict(work), title)
        times.seconds[size] = {
            name: [turn["seconds"] for turn in turns] for name, turns in answers.items()
        }
    return times


def table(times: Times, ours: Side, stock: Side) -> str:
    """Return a curve as text."""
    rows = [["", f"{stock.name}, s", f"{ours.name}, s", "ours ÷ stock"]]
    for size, seconds in times.seconds.items():
        own, other = seconds[ours.name], seconds[stock.name]
        rows.append([f"{size:,}", str(spread(other)), str(spread(own)), str(ratios(own, other))])
    return "\n".join([f"{times.curve.title}; {times.curve.axis}", *aligned_lines(rows)])


def parse() -> argparse.Namespace:
    parser = comparison_parser(__doc__)
    add_row(parser)
    add_count(parser, "--points", None, "only the N smallest sizes of every curve")
    parser.add_argument("--png", type=new_file, metavar="FILE", help="draw the curves")
    add_count(parser, "--turns", 3, "turns that count, per side")
    return parser.parse_args()


def main() -> None:
    run_comparison(compare, parse())


if __name__ == "__main__":
    main()

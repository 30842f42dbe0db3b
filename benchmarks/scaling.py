"""Measure how the time of a training step and of decoding grows, compared with stock fairseq.

Training varies sentence length, vocabulary and batch; decoding varies beam, sentence length and
batch; one at a time. Models have their initial weights, batches are synthetic and without padding,
and all decoded outputs have the same length. The systems take turns at every size. Growth is the
time at the largest size divided by that at the smallest; ours must not exceed the other's by more
than a tenth.

examples:
    python benchmarks/scaling.py --json scaling.json --png scaling.png    4 minutes on two cores
    python benchmarks/scaling.py --points 2 --turns 1                     a trial
    python benchmarks/scaling.py --device cuda --row base --png scaling.png
    python benchmarks/scaling.py --against ../before                      another checkout
"""

from __future__ import annotations

import argparse
import tempfile
from contextlib import ExitStack
from pathlib import Path

from comparison_options import add_options, add_turns, check_options
from scaling_curves import Times, curves, write_dictionaries
from side_by_side import Finding, aligned_lines, finding, ratios, run_comparison, spread
from sides import Side, on_device, opponents
from targets import GROWTH
from workers import Worker, alternate, log_file

PROGRAM = "scaling_worker.py"
WARMUP = 4_000  # of the learning rate, section 5.3
UPDATES = 1_000_000  # more than a turn makes


def worker(side: Side, arguments: argparse.Namespace, program: str = PROGRAM) -> Worker:
    """Start a system that trains and decodes as ordered."""
    command = [
        *(side.plugin if side.system == "aiayn" else []),
        *("--task", side.task, "--source-lang", "en", "--target-lang", "de"),
        *side.regime(arguments.row, 1, UPDATES, WARMUP),
        *on_device(arguments.device),
    ]
    script = Path(__file__).with_name(program)
    log = log_file(arguments.work, side.name)
    return Worker(side.name, [script, arguments.device, *command], log, side.environment)


def measure(sides: list[Side], arguments: argparse.Namespace) -> list[Times]:
    """Measure every curve, the sides in turn at every size; OSError or ValueError if one fails."""
    measured = []
    with ExitStack() as running:
        folder = Path(running.enter_context(tempfile.TemporaryDirectory(prefix="aiayn-")))
        workers = [running.enter_context(worker(side, arguments)) for side in sides]
        for whole in curves(arguments.device):
            times = Times(whole.first(arguments.points), {})
            measure_curve(times, workers, folder, arguments.turns)
            measured.append(times)
    return measured


def measure_curve(times: Times, workers: list[Worker], folder: Path, turns: int) -> None:
    """Complete the times of a curve."""
    for size, work in times.curve.points.items():
        write_dictionaries(folder, work.vocabulary)
        title = f"{times.curve.title} {size:,}"
        times.add(size, alternate(workers, turns, work.order(folder), title))


def table(times: Times, own: Side, rival: Side) -> str:
    """Return a curve as text."""
    rows = [["", f"{rival.name}, s", f"{own.name}, s", "ours ÷ other"]]
    for size, seconds in sorted(times.seconds.items()):
        both = seconds[own.name], seconds[rival.name]
        rows.append(
            [f"{size:,}", *(str(spread(each)) for each in reversed(both)), str(ratios(*both))]
        )
    return "\n".join([f"{times.curve.title}; {times.curve.axis}", *aligned_lines(rows)])


def compare(arguments: argparse.Namespace) -> tuple[str, list[Finding], dict[str, object]]:
    """Measure the curves, and draw them if requested."""
    own, rival = opponents(arguments.against, arguments.device)
    measured = measure([rival, own], arguments)
    found = [
        finding(
            *(GROWTH, times.curve.title, f"{own.label} ÷ {rival.name}"),
            times.growth_ratio(own.name, rival.name),
            arguments,
        )
        for times in measured
    ]
    if arguments.png:
        from scaling_plot import draw  # not everybody has matplotlib

        shown = f"median of {arguments.turns} turns, between the lowest and the highest"
        title = f"row {arguments.row}, {own.precision}, {arguments.device}; {shown}"
        draw(arguments.png, measured, [rival.name, own.name], title)
    tables = "\n\n".join(table(times, own, rival) for times in measured)
    return tables, found, {"curves": [record(times) for times in measured]}


def record(times: Times) -> dict[str, object]:
    """Return a curve's figures for JSON."""
    return {
        "title": times.curve.title,
        "axis": times.curve.axis,
        "seconds": {str(size): sides for size, sides in sorted(times.seconds.items())},
        "growth": {name: times.growth(name) for name in next(iter(times.seconds.values()))},
    }


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--row", default="tiny", help="a row of aiayn rows (default: tiny)")
    parser.add_argument(
        "--points", type=int, metavar="N", help="only the N smallest sizes of every curve"
    )
    parser.add_argument("--png", type=Path, metavar="FILE", help="draw the curves")
    add_turns(parser, 3)
    add_options(parser)
    arguments = parser.parse_args()
    check_options(parser, arguments)
    if arguments.png and not arguments.png.absolute().parent.is_dir():
        parser.error(f"--png must be in a directory that exists, got {arguments.png}")
    return arguments


def main() -> None:
    run_comparison("scaling", compare, parse())


if __name__ == "__main__":
    main()

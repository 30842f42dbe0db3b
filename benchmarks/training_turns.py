"""Trainings of both systems in turns, for train.py."""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

from findings import Finding, find_target, finding
from sides import Side, training_sides
from spreads import ratios
from workers import Answer, Worker, alternate, start

from fairseq_aiayn.paper import find_row

ENDLESS = 1_000_000  # updates; the turns end it
LIMITS = "limits"


@dataclass(frozen=True)
class RowTurns:
    """What was measured of a row: by name of the side its starts, in seconds, and its turns."""

    row: str
    sides: list[Side]
    vocabulary: int
    held_before: dict[str, float]  # MiB, before the model was built
    starts: dict[str, list[float]]
    turns: dict[str, list[Answer]]
    limits: dict[str, float]  # FLOPs per second by precision

    def record(self) -> dict[str, object]:
        """All figures for JSON; what the sides are is in their names."""
        return {name: value for name, value in vars(self).items() if name != "sides"}

    def figures(self, side: Side, of_turn: Callable[[Answer], float]) -> list[float]:
        """Return a figure of every turn of a side."""
        return [of_turn(turn) for turn in self.turns[side.name]]

    def speeds(self, side: Side) -> list[float]:
        """Return target tokens per second."""
        return self.figures(side, lambda turn: turn["target_tokens"] / turn["seconds"])

    def peaks(self, side: Side) -> list[float]:
        """Return MiB of every turn."""
        return self.figures(side, lambda turn: turn["peak_mib"])

    def peaks_of_a_step(self, side: Side) -> list[float]:
        """Return MiB of every turn, without what the process held before the model was built."""
        return [peak - self.held_before[side.name] for peak in self.peaks(side)]

    @property
    def ours(self) -> list[Side]:
        """This package in every precision."""
        return [side for side in self.sides if side.system == "ours"]

    @property
    def stock(self) -> Side:
        """Stock fairseq in its fastest precision."""
        sides = [side for side in self.sides if side.system == "stock"]
        return max(sides, key=lambda side: statistics.median(self.speeds(side)))

    def compared(self, figure: str, side: Side, values: Callable[[Side], list[float]]) -> Finding:
        """Return the ratio of a side's values to stock fairseq's."""
        return finding(
            figure,
            f"{self.row} {side.precision}",
            f"{side.system} ÷ {self.stock.name}",
            ratios(values(side), values(self.stock)),
            find_target(figure, side.device, self.row, side.precision),
        )


def measure_row(row: str, arguments: argparse.Namespace) -> RowTurns:
    """Start all sides `starts` times in turn; the last ones stay, and train in turns."""
    sides = training_sides(arguments.device, arguments.precision)
    starts: dict[str, list[float]] = {side.name: [] for side in sides}
    held: dict[str, float] = {}
    with ExitStack() as running:
        for turn in range(1, arguments.starts + 1):
            running.close()  # those of the start before
            workers = []
            for side in sides:
                print(f"{row}: start {turn}, {side.name}", file=sys.stderr, flush=True)
                worker = running.enter_context(training_worker(side, row, arguments))
                ready = worker.answer()
                starts[side.name].append(round(time.monotonic() - worker.started, 3))
                held[side.name] = ready["held_before_mib"]
                workers.append(worker)
        vocabulary = int(ready["vocabulary"])
        limits = running.enter_context(limits_worker(row, vocabulary, arguments))
        order = {"updates": arguments.updates}
        turns = alternate([*workers, limits], arguments.turns, order, row)
    rates = turns.pop(LIMITS)
    best = {precision: max(rate[precision] for rate in rates) for precision in rates[0]}
    return RowTurns(row, sides, vocabulary, held, starts, turns, best)


def training_worker(side: Side, row: str, arguments: argparse.Namespace) -> Worker:
    """Start a fairseq-train without an end, of which nothing is kept."""
    nowhere = str(arguments.work / "no_checkpoints")  # fairseq makes and tries it all the same
    options = side.training_options(row, arguments.max_tokens, ENDLESS)
    command = [str(arguments.data), *options, "--no-save", "--save-dir", nowhere]
    return start(side.name, "training_worker.py", command, arguments)


def limits_worker(row: str, vocabulary: int, arguments: argparse.Namespace) -> Worker:
    """Start the worker that measures the machine's limit with the products of a row."""
    shape = find_row(row)
    sizes = (arguments.max_tokens, shape.d_model, shape.d_ff, vocabulary)
    return start(LIMITS, "limits.py", list(map(str, sizes)), arguments)

"""Trainings of several systems in turns, for train.py (speed) and memory.py."""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

from comparison_options import add_data_option, add_options, add_turns, check_options
from limits import ceiling
from side_by_side import Finding
from sides import PRECISIONS, STOCK, Side, on_device, ours, rivals
from workers import Answer, Worker, alternate, log_file

from fairseq_aiayn.cost.estimate import forward_flops
from fairseq_aiayn.rows import find_row

HERE = Path(__file__).parent
ENDLESS = 1_000_000  # updates; the turns end it
WARMUP = 4_000  # of the learning rate, section 5.3
LIMITS = "limits"


@dataclass(frozen=True)
class RowTurns:
    """What was measured of a row: by name of the side its starts, in seconds, and its turns."""

    row: str
    ours: list[Side]
    rivals: list[Side]
    vocabulary: int
    held_before: dict[str, float]  # MiB, before the model was built
    starts: dict[str, list[float]]
    turns: dict[str, list[Answer]]
    limits: dict[str, float]  # FLOPs a second by precision, bytes copied a second

    def record(self) -> dict[str, object]:
        """All figures for JSON; what the sides are is in their names."""
        content = asdict(self)
        del content["ours"], content["rivals"]
        return content

    def values(self, side: Side, figure: str) -> list[float]:
        """A figure of every turn of a side: an answer's, or one a second or an update."""
        return [FIGURES[figure](turn) for turn in self.turns[side.name]]

    def rival(self, side: Side) -> Side:
        """Stock fairseq in its fastest precision, or the other checkout in the same one."""
        if self.rivals[0].label != STOCK:
            return next(rival for rival in self.rivals if rival.precision == side.precision)
        return max(self.rivals, key=lambda rival: statistics.median(self.values(rival, "speed")))

    def shares(self, side: Side) -> list[float]:
        """Of every turn: FLOPs that the model needs, over the ceiling of the side's precision."""
        best = self.limits[side.precision]
        return [
            update_flops(turn, self.row, self.vocabulary) / turn["seconds"] / best
            for turn in self.turns[side.name]
        ]


FIGURES = {
    "speed": lambda turn: turn["target_tokens"] / turn["seconds"],
    "update": lambda turn: turn["seconds"] / turn["updates"],
    "padding": lambda turn: 1 - (turn["source_tokens"] + turn["target_tokens"]) / turn["positions"],
    "peak": lambda turn: turn["peak_mib"],
}


def update_flops(turn: Answer, row: str, vocabulary: int) -> float:
    """Return the FLOPs of a turn's matrix products for its tokens, without padding.

    One attention of three is over source tokens. The backward pass has two products per forward
    product.
    """
    source, target = turn["source_tokens"], turn["target_tokens"]
    length = max(1, round(target / turn["sentences"]))
    forward = forward_flops(find_row(row), vocabulary, length)
    attention = forward.attention * (source + 2 * target) / 3
    return 3 * (
        forward.encoder * source + (forward.decoder + forward.projection) * target + attention
    )


def parse_training(summary: str, turns: int, updates: int, starts: int) -> argparse.Namespace:
    """Read the options that train.py and memory.py have, with the defaults given."""
    parser = argparse.ArgumentParser(
        description=summary, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    rows, number = {"nargs": "+", "metavar": "ROW"}, {"type": int, "metavar": "N"}
    parser.add_argument(
        "--row", default=["tiny", "base"], **rows, help="rows of aiayn rows (default: tiny base)"
    )
    parser.add_argument(
        "--precision",
        nargs="+",
        choices=PRECISIONS["cuda"],
        default=PRECISIONS["cpu"],
        help="of our models; stock fairseq runs in its own (default: float32 bfloat16)",
    )
    parser.add_argument(
        "--max-tokens", default=2048, **number, help="tokens per batch on each side (default: 2048)"
    )
    add_turns(parser, turns)
    parser.add_argument(
        "--updates", default=updates, **number, help=f"per turn (default: {updates})"
    )
    parser.add_argument(
        "--starts", default=starts, **number, help=f"per system (default: {starts})"
    )
    add_data_option(parser)
    add_options(parser)
    arguments = parser.parse_args()
    check_options(parser, arguments)
    if foreign := set(arguments.precision) - set(PRECISIONS[arguments.device]):
        parser.error(f"--precision {foreign.pop()} needs --device cuda")
    return arguments


def compare_rows(
    arguments: argparse.Namespace,
    table: Callable[[RowTurns], str],
    findings: Callable[[RowTurns, argparse.Namespace], list[Finding]],
) -> tuple[str, list[Finding], dict[str, object]]:
    """Let all sides train every row in turns; return tables, findings, and all figures for JSON.

    Raises OSError or ValueError if one of them fails.
    """
    measured = [measure_row(row, arguments) for row in arguments.row]
    titles = (
        f"{row.row}, {row.vocabulary:,} types, --max-tokens {arguments.max_tokens}, "
        f"{arguments.device}: {arguments.turns} turns of {arguments.updates} updates\n"
        for row in measured
    )
    text = "\n\n".join(title + table(row) for title, row in zip(titles, measured, strict=True))
    found = [each for row in measured for each in findings(row, arguments)]
    return text, found, {"rows": [row.record() for row in measured]}


def measure_row(row: str, arguments: argparse.Namespace) -> RowTurns:
    """Start all sides, `starts` times in turn; the last ones stay, and train in turns."""
    mine = ours(arguments.precision)
    others = rivals(arguments.against, arguments.device, arguments.precision)
    sides = [*others, *mine]
    commands = {side.name: training_command(side, row, arguments) for side in sides}
    starts: dict[str, list[float]] = {side.name: [] for side in sides}
    held: dict[str, float] = {}
    with ExitStack() as running:
        for start in range(1, arguments.starts + 1):
            workers = []
            for side in sides:
                print(f"{row}: start {start}, {side.name}", file=sys.stderr, flush=True)
                worker = _start(side, row, commands[side.name], arguments)
                with ExitStack() as this_start:
                    this_start.enter_context(worker)
                    ready = worker.answer()
                    starts[side.name].append(round(time.monotonic() - worker.started, 3))
                    held[side.name] = ready["held_before_mib"]
                    if start == arguments.starts:  # stays
                        running.push(this_start.pop_all())
                workers.append(worker)
        vocabulary = int(ready["vocabulary"])
        limits = running.enter_context(limits_worker(row, vocabulary, arguments))
        order = {"updates": arguments.updates}
        turns = alternate([*workers, limits], arguments.turns, order, row)
    best = ceiling(turns.pop(LIMITS))
    return RowTurns(row, mine, others, vocabulary, held, starts, turns, best)


def training_command(side: Side, row: str, arguments: argparse.Namespace) -> list[str]:
    """fairseq-train's arguments without an end; nothing is validated or kept."""
    nowhere = arguments.work / "no_checkpoints"  # fairseq makes and tries it all the same
    return [
        str(arguments.data),
        *(side.plugin if side.system == "aiayn" else []),
        *("--task", side.task),
        *side.regime(row, arguments.max_tokens, updates=ENDLESS, warmup=WARMUP),
        *on_device(arguments.device),
        *("--seed", str(arguments.seed), "--required-batch-size-multiple", "1"),
        *("--no-save", "--save-dir", str(nowhere), "--disable-validation"),
        *("--log-format", "simple", "--log-interval", "100"),
    ]


def _start(side: Side, row: str, command: Sequence[str], arguments: argparse.Namespace) -> Worker:
    """Start fairseq-train with this command as a worker."""
    log = log_file(arguments.work, f"{row} {side.name}")
    script = HERE / "training_worker.py"
    return Worker(side.name, [script, arguments.device, *command], log, side.environment)


def limits_worker(row: str, vocabulary: int, arguments: argparse.Namespace) -> Worker:
    """Start the worker that measures the machine's limits with the products of a row."""
    shape = find_row(row)
    sizes = (arguments.max_tokens, shape.d_model, shape.d_ff, vocabulary)
    command = [HERE / "limits.py", arguments.device, *map(str, sizes)]
    return Worker(LIMITS, command, log_file(arguments.work, f"{row} {LIMITS}"), {})

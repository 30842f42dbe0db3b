"""Measure speed and memory of fairseq-train with this package's models and stock fairseq's.

fairseq-train itself runs in one process per system and precision, so the figures include everything
around an update. The processes train in turns, A B A B ..., on the same data with the same
--max-tokens. Each system batches sentences in its own way, so tokens count and padding does not.
The same turns measure the machine's limit: the best rate of the model's matrix products.

It prints target tokens per second, seconds per update, seconds from the start of the process to its
first update, the share of padding, the share of the limit that the model's products reach, and the
peak memory of an update. Stock fairseq runs in its fastest precision; on a CPU, that is float32,
its only one there.

On a CPU, the peak is the kernel's high-water mark of the resident set, reset before every turn: of
the whole process, and without what it held before the model was built (Python, PyTorch, fairseq).
On a GPU, it is PyTorch's count of the tensors' memory.

examples:
    python benchmarks/train.py --json train.json         tiny and base: 15 minutes on two cores
    python benchmarks/train.py --row tiny --turns 2 --starts 1               a trial, 2 minutes
    python benchmarks/train.py --device cuda --row base big --max-tokens 4096
"""

from __future__ import annotations

import argparse

from comparison import run_comparison
from comparison_options import add_count, add_data, comparison_parser, row_name
from findings import CEILING, MEMORY, START_UP, TRAINING, Finding, find_target, finding
from sides import PRECISIONS, Side
from spreads import number, spread
from training_turns import RowTurns, measure_row
from workers import Answer

from fairseq_aiayn.cost import forward_flops
from fairseq_aiayn.paper import find_row
from fairseq_aiayn.text import aligned_lines

WHOLE = "peak memory of the process"
HEAD = [
    *("target tokens/s", "s/update", "s to first update", "padding", "of the ceiling"),
    *("peak MiB of a step", "of the process"),
]


def compare_rows(
    arguments: argparse.Namespace,
) -> tuple[str, list[Finding], dict[str, object]]:
    """Let all sides train every row in turns; return tables, findings, and all figures for JSON.

    Raises OSError or ValueError if one of them fails.
    """
    measured = [measure_row(row, arguments) for row in arguments.row]
    tables = [
        f"{row.row}, {row.vocabulary:,} types, --max-tokens {arguments.max_tokens}, "
        f"{arguments.device}: {arguments.turns} turns of {arguments.updates} updates\n{table(row)}"
        for row in measured
    ]
    found = [each for row in measured for each in findings_of(row)]
    return "\n\n".join(tables), found, {"rows": [row.record() for row in measured]}


def findings_of(measured: RowTurns) -> list[Finding]:
    """Return the ratios of a row, and the shares of the ceiling that it reaches."""
    found = []
    for side in measured.ours:
        target = find_target(CEILING, side.device, measured.row, side.precision)
        share = spread(shares(measured, side))
        subject = f"{measured.row} {side.precision}"
        found += [
            measured.compared(TRAINING, side, measured.speeds),
            measured.compared(START_UP, side, lambda side: measured.starts[side.name]),
            finding(CEILING, subject, side.precision, share, target),
            measured.compared(MEMORY, side, measured.peaks_of_a_step),
            measured.compared(WHOLE, side, measured.peaks),
        ]
    return found


def table(measured: RowTurns) -> str:
    """Return the measurements of each side as text."""
    rows = [["", *HEAD], *([side.name, *cells(measured, side)] for side in measured.sides)]
    ceilings = (f"{name} {number(rate / 1e9)}" for name, rate in measured.limits.items())
    return "\n".join([*aligned_lines(rows), f"ceiling, GFLOPS: {', '.join(ceilings)}"])


def cells(measured: RowTurns, side: Side) -> list[str]:
    """Return a side's line of the table."""
    updates = measured.figures(side, lambda turn: turn["seconds"] / turn["updates"])
    return [
        str(spread(measured.speeds(side))),
        str(spread(updates)),
        str(spread(measured.starts[side.name])),
        f"{spread(measured.figures(side, padding)).median:.1%}",
        f"{spread(shares(measured, side)).median:.0%}",
        str(spread(measured.peaks_of_a_step(side))),
        str(spread(measured.peaks(side))),
    ]


def padding(turn: Answer) -> float:
    """Return the share of positions without a token."""
    return 1 - (turn["source_tokens"] + turn["target_tokens"]) / turn["positions"]


def shares(measured: RowTurns, side: Side) -> list[float]:
    """Of every turn: FLOPs that the model needs, over the ceiling of the side's precision."""
    best = measured.limits[side.precision]
    return measured.figures(
        side,
        lambda turn: update_flops(turn, measured.row, measured.vocabulary) / turn["seconds"] / best,
    )


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


def parse() -> argparse.Namespace:
    """Read the options; status 2 for a precision that the device has not."""
    parser = comparison_parser(__doc__)
    parser.add_argument(
        "--row",
        type=row_name,
        nargs="+",
        default=["tiny", "base"],
        metavar="ROW",
        help="rows of aiayn rows (default: tiny base)",
    )
    parser.add_argument(
        "--precision",
        nargs="+",
        choices=PRECISIONS["cuda"],
        default=PRECISIONS["cpu"],
        help="of our models; stock fairseq runs in its own (default: float32 bfloat16)",
    )
    add_count(parser, "--max-tokens", 2048, "tokens per batch on each side")
    add_count(parser, "--turns", 5, "turns that count, per side")
    add_count(parser, "--updates", 8, "updates per turn")
    add_count(parser, "--starts", 3, "starts per side")
    add_data(parser)
    arguments = parser.parse_args()
    if foreign := set(arguments.precision) - set(PRECISIONS[arguments.device]):
        parser.error(f"--precision {foreign.pop()} needs --device cuda")
    return arguments


def main() -> None:
    run_comparison(compare_rows, parse())


if __name__ == "__main__":
    main()

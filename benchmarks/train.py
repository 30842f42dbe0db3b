"""Measure how fast fairseq-train trains this package's models and stock fairseq's.

fairseq-train itself runs in one process per system and precision, so the figures include everything
around an update. The processes train in turns, A B A B ..., on the same data with the same
--max-tokens. Each system batches sentences in its own way, so tokens count and padding does not.
The same turns measure the machine's limit: the best rate of the model's matrix products.

It prints target tokens per second, seconds per update, seconds from the start of the process to its
first update, the share of padding, and the share of the limit that the model's products reach.
Stock fairseq runs in its fastest precision; on a CPU, that is float32, its only one there.

examples:
    python benchmarks/train.py --json train.json         tiny and base: 15 minutes on two cores
    python benchmarks/train.py --row tiny --turns 2 --starts 1               a trial, 2 minutes
    python benchmarks/train.py --device cuda --row base big --max-tokens 4096
"""

from __future__ import annotations

from functools import partial

from comparison import run_comparison
from comparison_options import add_count
from findings import CEILING, START_UP, TRAINING, Finding, find_target, finding
from sides import Side
from spreads import number, spread
from training_turns import RowTurns, compare_rows, parse_training, training_parser
from workers import Answer

from fairseq_aiayn.cost.estimate import forward_flops
from fairseq_aiayn.files.text_table import aligned_lines
from fairseq_aiayn.rows import find_row

HEAD = ["target tokens/s", "s/update", "s to first update", "padding", "of the ceiling"]


def findings_of(measured: RowTurns) -> list[Finding]:
    """Return the ratios of a row and its shares of the ceiling."""
    found = []
    for side in measured.ours:
        target = find_target(CEILING, side.device, measured.row, side.precision)
        share = spread(shares(measured, side))
        subject = f"{measured.row} {side.precision}"
        found += [
            measured.compared(TRAINING, side, measured.speeds),
            measured.compared(START_UP, side, lambda side: measured.starts[side.name]),
            finding(CEILING, subject, side.precision, share, target),
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


def main() -> None:
    parser = training_parser(__doc__, turns=5, updates=8)
    add_count(parser, "--starts", 3, "starts per side")
    run_comparison(partial(compare_rows, table, findings_of), parse_training(parser))


if __name__ == "__main__":
    main()

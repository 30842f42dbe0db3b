"""Measure how fast fairseq-train trains this package's models and stock fairseq's.

fairseq-train itself runs in one process per system and precision, so the figures include everything
around an update. The processes train in turns, A B A B ..., on the same data with the same
--max-tokens and --seed. Each system batches sentences in its own way, so tokens count and padding
does not. The same turns measure the machine's limit: the best rate of the model's matrix products.

It prints target tokens per second, seconds per update, seconds from the start of the process to its
first update, the share of padding, and the share of the limit that the model's products reach.
Stock fairseq runs in its fastest precision; on a CPU, that is float32, its only one there.

examples:
    python benchmarks/train.py --json train.json         tiny and base: 15 minutes on two cores
    python benchmarks/train.py --row tiny --turns 3 --starts 1               a trial, 2 minutes
    python benchmarks/train.py --device cuda --row base big --max-tokens 4096
    python benchmarks/train.py --against ../before --precision float32       another checkout
"""

from __future__ import annotations

import argparse
from functools import partial

from limits import BANDWIDTH
from side_by_side import Finding, aligned_lines, finding, number, ratios, run_comparison, spread
from sides import Side
from targets import CEILING, START_UP, TRAINING
from training_turns import RowTurns, compare_rows, parse_training

HEAD = ["target tokens/s", "s/update", "s to first update", "padding", "of the ceiling"]


def findings_of(measured: RowTurns, arguments: argparse.Namespace) -> list[Finding]:
    """Return the ratios of a row and its shares of the ceiling."""
    found = []
    for side in measured.ours:
        rival = measured.rival(side)
        subject, unit = f"{measured.row} {side.precision}", f"{side.label} ÷ {rival.name}"
        kind = (arguments, measured.row, side.precision)
        speeds = [measured.values(each, "speed") for each in (side, rival)]
        starts = [measured.starts[each.name] for each in (side, rival)]
        shares = spread(measured.shares(side))
        found += [
            finding(TRAINING, subject, unit, ratios(*speeds), *kind),
            finding(START_UP, subject, unit, ratios(*starts), *kind),
            finding(CEILING, subject, side.precision, shares, *kind),
        ]
    return found


def table(measured: RowTurns) -> str:
    """Return the measurements of each side as text."""
    rows = [["", *HEAD]]
    rows += [[side.name, *cells(measured, side)] for side in (*measured.rivals, *measured.ours)]
    rates = {name: rate for name, rate in measured.limits.items() if name != BANDWIDTH}
    ceilings = ", ".join(f"{name} {number(rate / 1e9)}" for name, rate in rates.items())
    copying = number(measured.limits[BANDWIDTH] / 1e9)
    limits = f"ceiling, GFLOPS: {ceilings}; copying, GB/s: {copying}"
    return "\n".join([*aligned_lines(rows), limits])


def cells(measured: RowTurns, side: Side) -> list[str]:
    """Return a side's line of the table."""
    padding = spread(measured.values(side, "padding")).median
    return [
        str(spread(measured.values(side, "speed"))),
        str(spread(measured.values(side, "update"))),
        str(spread(measured.starts[side.name])),
        f"{padding:.1%}",
        f"{spread(measured.shares(side)).median:.0%}",
    ]


def main() -> None:
    arguments = parse_training(__doc__, turns=5, updates=8, starts=3)
    compare = partial(compare_rows, table=table, findings=findings_of)
    run_comparison("train", compare, arguments)


if __name__ == "__main__":
    main()

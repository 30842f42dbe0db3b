"""Train on the fast paths and on the reference, and print the difference of the losses.

Both start from the same parameters and see the same batches, in float32. Dropout is off, since each
draws random numbers in its own way. So only the order of summation differs, whose effect grows with
every update; the target bounds the largest difference of the smoothed loss, in nats per token. The
table also shows training in bfloat16 with --autocast.

examples:
    python benchmarks/agreement.py --json agreement.json  200 updates of tiny: 6 minutes
    python benchmarks/agreement.py --updates 20           a trial
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from comparison import run_comparison
from comparison_options import add_count, add_data, add_row, comparison_parser
from findings import AT_MOST, Finding, Target, finding
from sides import Side
from spreads import spread
from workers import start

from fairseq_aiayn.paper import find_row
from fairseq_aiayn.text import aligned_lines

REFERENCE = "reference float32"
TRAININGS = ("reference float32", "fast float32", "fast bfloat16")
TARGETS = {"fast float32": Target(AT_MOST, 1e-3)}
SHOWN = 5  # updates, of all, in the table


def compare(arguments: argparse.Namespace) -> tuple[str, list[Finding], dict[str, object]]:
    """Train three times, and return a table, the findings and all losses."""
    losses = {name: train(name, arguments) for name in TRAININGS}
    found = [
        finding(
            "largest difference of the loss",
            f"{arguments.row}, {arguments.updates} updates",
            f"{name} − {REFERENCE}, nats a token",
            spread([largest_difference(losses[REFERENCE], losses[name])]),
            TARGETS.get(name),
        )
        for name in TRAININGS
        if name != REFERENCE
    ]
    last = arguments.updates - 1
    shown = sorted({round(last * part / (SHOWN - 1)) for part in range(SHOWN)})
    rows = [["update", *losses]]
    rows += [[f"{n + 1}", *(f"{each[n]:.6f}" for each in losses.values())] for n in shown]
    return "\n".join(aligned_lines(rows)), found, {"losses": losses}


def train(name: str, arguments: argparse.Namespace) -> list[float]:
    """Return the loss of every update; WorkerDied if the training fails."""
    kind, precision = name.split()
    side = Side("ours", precision, arguments.device)
    warmup = find_row(arguments.row).warmup
    options = [
        *(kind, str(arguments.data)),
        *side.training_options(arguments.row, arguments.max_tokens, arguments.updates, warmup),
        *("--dropout", "0", "--no-save", "--save-dir", str(arguments.work / "no_checkpoints")),
    ]
    print(f"training on the {name} path", file=sys.stderr, flush=True)
    with start(name, "reference_training.py", options, arguments) as worker:
        return [worker.answer()["loss"] for _ in range(arguments.updates)]


def largest_difference(losses: Sequence[float], others: Sequence[float]) -> float:
    """Return the largest difference over all updates, in nats per token."""
    return max(abs(one - other) for one, other in zip(losses, others, strict=True))


def parse() -> argparse.Namespace:
    parser = comparison_parser(__doc__)
    add_row(parser)
    add_count(parser, "--updates", 200, "updates of each training")
    add_count(parser, "--max-tokens", 2048, "tokens per batch")
    add_data(parser)
    return parser.parse_args()


def main() -> None:
    run_comparison(compare, parse())


if __name__ == "__main__":
    main()

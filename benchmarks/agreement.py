"""Train on the fast paths and on the reference, and print the difference of the losses.

Both start from the same parameters and see the same batches, in float32. Dropout is off, since each
draws random numbers in its own way. So only the order of summation differs, whose effect grows with
every update: --tolerance bounds the largest difference of the smoothed loss, in nats per token. The
table also shows training in bfloat16 with --autocast.

examples:
    python benchmarks/agreement.py --json agreement.json  200 updates of tiny: 6 minutes
    python benchmarks/agreement.py --updates 20           a trial
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from comparison_options import add_data_option, add_options, check_options
from side_by_side import Finding, aligned_lines, run_comparison, spread
from sides import on_device, ours
from workers import Worker, log_file

from fairseq_aiayn.rows import find_row

PROGRAM = Path(__file__).with_name("reference_training.py")
SHOWN = 5  # updates, of all, in the table


def train(kind: str, precision: str, arguments: argparse.Namespace, directory: Path) -> list[float]:
    """Return the loss of every update; raises OSError if the training fails."""
    (side,) = ours([precision])
    name = f"{kind} {precision}"
    path = directory / f"{kind}-{precision}.json"
    warmup = find_row(arguments.row).warmup
    regime = side.regime(arguments.row, arguments.max_tokens, arguments.updates, warmup)
    options = [
        *(str(arguments.data), *side.plugin, "--task", side.task, *regime, "--dropout", "0"),
        *(*on_device(arguments.device), "--seed", str(arguments.seed)),
        *("--no-save", "--save-dir", str(directory), "--disable-validation"),
        *("--log-format", "none"),
    ]
    print(f"training on the {name} path", file=sys.stderr, flush=True)
    with Worker(
        name, [PROGRAM, kind, path, *options], log_file(arguments.work, name), side.environment
    ) as worker:
        worker.wait()
    return json.loads(path.read_text(encoding="utf-8"))


def largest_difference(losses: Sequence[float], others: Sequence[float]) -> float:
    """Return the largest difference over all updates, in nats per token."""
    return max(abs(one - other) for one, other in zip(losses, others, strict=True))


def compare(arguments: argparse.Namespace) -> tuple[str, list[Finding], dict[str, object]]:
    """Train three times, and return a table, the finding and all losses."""
    kinds = [("reference", "float32"), ("fast", "float32"), ("fast", "bfloat16")]
    with tempfile.TemporaryDirectory() as directory:
        losses = {
            f"{kind} {precision}": train(kind, precision, arguments, Path(directory))
            for kind, precision in kinds
        }
    reference, *fast = losses
    found = []
    for name in fast:
        apart = float(f"{largest_difference(losses[reference], losses[name]):.3g}")
        bound = arguments.tolerance if name.endswith("float32") else None
        found.append(
            Finding(
                "largest difference of the loss",
                f"{arguments.row}, {arguments.updates} updates",
                f"{name} − {reference}, nats a token",
                spread([apart]),
                None if bound is None else f"at most {bound:g}",
                None if bound is None else apart <= bound,
            )
        )
    last = len(losses[reference]) - 1
    shown = sorted({round(last * part / (SHOWN - 1)) for part in range(SHOWN)})
    rows = [["update", *losses]]
    rows += [[f"{n + 1}", *(f"{each[n]:.6f}" for each in losses.values())] for n in shown]
    return "\n".join(aligned_lines(rows)), found, {"losses": losses}


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    number = {"type": int, "metavar": "N"}
    parser.add_argument("--row", default="tiny", help="default: tiny")
    parser.add_argument("--updates", default=200, **number, help="default: 200")
    parser.add_argument("--max-tokens", default=2_048, **number, help="default: 2048")
    parser.add_argument(
        "--tolerance", type=float, default=1e-3, metavar="NATS", help="default: 0.001"
    )
    add_data_option(parser)
    add_options(parser)
    arguments = parser.parse_args()
    check_options(parser, arguments)
    return arguments


def main() -> None:
    run_comparison("agreement", compare, parse())


if __name__ == "__main__":
    main()

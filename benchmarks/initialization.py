"""Train with differently drawn feed-forward matrices, and print the development perplexity.

Stock fairseq learns faster than this plugin at first. It leaves the feed-forward matrices as
torch.nn.Linear draws them; the plugin draws them as tensor2tensor did. Trained are ours, ours with
stock's feed-forward matrices, and stock fairseq, each with the same data, shape, batch size and
seeds. Trainings that are done are kept in --work and not done again.

examples:
    python benchmarks/initialization.py --json initialization.json     tiny: 35 minutes
    python benchmarks/initialization.py --seeds 1 --updates 200        a trial
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
from pathlib import Path

from comparison_options import add_data_option, add_options, check_options
from side_by_side import Finding, aligned_lines, ratios, run_comparison
from sides import STOCK, on_device, ours, rivals
from trained_models import key
from workers import Worker, log_file

from fairseq_aiayn.evaluation.learning_curves import Curve, read_learning_curves
from fairseq_aiayn.rows import find_row

HERE = Path(__file__).parent
KINDS = {
    "ours": [HERE / "initial_training.py", "as_it_is"],
    "ours, stock's feed-forward": [HERE / "initial_training.py", "linear"],
    "stock": [HERE / "initial_training.py", "as_it_is"],
}
VALIDATIONS = 10  # of a training


def train(kind: str, seed: int, arguments: argparse.Namespace) -> Curve:
    """Return the validations of a training, done now or before; OSError if it fails."""
    (side,) = rivals("stock", "cpu", []) if kind == "stock" else ours(["float32"])
    warmup = find_row(arguments.row).warmup
    options = [
        *(*side.plugin, "--task", side.task),
        *side.regime(arguments.row, arguments.max_tokens, arguments.updates, warmup),
        *("--validate-interval-updates", str(max(1, arguments.updates // VALIDATIONS))),
        *("--no-save", "--log-format", "json", "--log-interval", "50", "--seed", str(seed)),
        *on_device(arguments.device),
    ]
    name = f"{kind} {seed}"
    done = arguments.work / "initialization" / key(side, [kind, *options], arguments.data)
    if not done.exists():
        print(f"training {name}", file=sys.stderr, flush=True)
        part = done.with_name(f"{done.name}.part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        where = [
            *(str(arguments.data), "--save-dir", str(part)),
            *("--log-file", str(part / "train.log")),
            *("--num-workers", "0"),  # a process that starts for each validation costs more
        ]
        command = [*KINDS[kind], *where, *options]
        with Worker(name, command, log_file(arguments.work, name), side.environment) as worker:
            worker.wait()
        os.replace(part, done)
    return read_learning_curves(done / "train.log").validation


def seeds(arguments: argparse.Namespace) -> list[int]:
    """The seeds of the trainings of one kind."""
    return list(range(arguments.seed, arguments.seed + arguments.seeds))


def compare(arguments: argparse.Namespace) -> tuple[str, list[Finding], dict[str, object]]:
    """Train all kinds with all seeds, and return a table, ratios of perplexities and all curves."""
    curves = {kind: [train(kind, seed, arguments) for seed in seeds(arguments)] for kind in KINDS}
    last = {kind: [curve.perplexity[-1] for curve in found] for kind, found in curves.items()}
    subject = f"{arguments.row}, {arguments.updates} updates"
    found = [
        Finding(
            "development perplexity",
            subject,
            f"{kind} ÷ stock",
            ratios(values, last["stock"]),
            None,
            None,
        )
        for kind, values in last.items()
        if kind != "stock"
    ]
    shown = {
        kind: {
            "updates": one[0].updates,
            "perplexity": {
                str(s): c.perplexity for s, c in zip(seeds(arguments), one, strict=True)
            },
        }
        for kind, one in curves.items()
    }
    return table(last, seeds(arguments)), found, {"curves": shown}


def table(last: dict[str, list[float]], drawn: list[int]) -> str:
    """Return the perplexities after the last update by seed, and their mean."""
    rows = [["seed", *last]]
    rows += [
        [str(seed), *(f"{one[k]:.2f}" for one in last.values())] for k, seed in enumerate(drawn)
    ]
    rows.append(["mean", *(f"{statistics.mean(one):.2f}" for one in last.values())])
    return "\n".join(aligned_lines(rows))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    number = {"type": int, "metavar": "N"}
    parser.add_argument("--row", default="tiny", help="default: tiny")
    parser.add_argument("--updates", default=1_000, **number, help="default: 1000")
    parser.add_argument("--max-tokens", default=768, **number, help="default: 768")
    parser.add_argument(
        "--seeds", default=3, **number, help="how many, from --seed on (default: 3)"
    )
    add_data_option(parser)
    add_options(parser)
    arguments = parser.parse_args()
    check_options(parser, arguments)
    if arguments.against != STOCK:
        parser.error(f"--against must be stock, got {arguments.against}")
    return arguments


def main() -> None:
    run_comparison("initialization", compare, parse())


if __name__ == "__main__":
    main()

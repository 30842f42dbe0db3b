"""Print where the time of a training step and of a search goes, beside stock fairseq or a checkout.

torch.profiler's own time of each operation, on one thread, for a batch of synthetic sentences (the
curves' of scaling.py). The whole is timed without the profiler.

examples:
    python benchmarks/profile_step.py --json profile.json      tiny beside stock fairseq: a minute
    python benchmarks/profile_step.py --against ../before --precision bfloat16
    python benchmarks/profile_step.py --row base --lines 30
"""

from __future__ import annotations

import argparse
import tempfile
from contextlib import ExitStack
from pathlib import Path

from comparison_options import add_options, check_options
from scaling import worker
from scaling_curves import Work, write_dictionaries
from side_by_side import Finding, aligned_lines, run_comparison
from sides import OURS, PRECISIONS, ours, rivals
from workers import Answer

PROGRAM = "profile_worker.py"
VOCABULARY, LENGTH, BEAM = 9_784, 19, 4  # about Multi30k's, as make bench prepares it
KINDS = {
    "training step": Work(100, LENGTH, VOCABULARY),
    "search": Work(100, LENGTH, VOCABULARY, BEAM),
}


def compare(arguments: argparse.Namespace) -> tuple[str, list[Finding], dict[str, object]]:
    """Profile every side's training step and search."""
    sides = rivals(arguments.against, arguments.device, [arguments.precision])
    sides += ours([arguments.precision])
    found: dict[str, dict[str, Answer]] = {kind: {} for kind in KINDS}
    with ExitStack() as running:
        folder = Path(running.enter_context(tempfile.TemporaryDirectory(prefix="aiayn-")))
        write_dictionaries(folder, VOCABULARY)
        for side in sides:
            with worker(side, arguments, PROGRAM) as process:
                for kind, work in KINDS.items():
                    found[kind][side.name] = process.ask(**work.order(folder))
    tables = [
        table(f"{kind}, {name}", answer, arguments.lines)
        for kind, answers in found.items()
        for name, answer in answers.items()
    ]
    return "\n\n".join(tables), [], {"profiles": found}


def table(title: str, answer: Answer, lines: int) -> str:
    """Return the operations that take most time."""
    taken = sorted(answer["operations"].items(), key=lambda item: -item[1][0])
    whole = sum(milliseconds for _, (milliseconds, _) in taken)
    rows = [["", "ms", "share", "calls"]]
    for name, (milliseconds, calls) in taken[:lines]:
        rows.append([name, f"{milliseconds:.1f}", f"{milliseconds / whole:.1%}", f"{calls:,.0f}"])
    head = f"{title}: {answer['milliseconds']:,.0f} ms, {whole:,.0f} ms with the profiler"
    return "\n".join([head, *aligned_lines(rows)])


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--row", default="tiny", help="of aiayn rows (default: tiny)")
    parser.add_argument("--precision", default="float32", help=f"of {OURS} (default: float32)")
    parser.add_argument("--lines", type=int, default=12, metavar="N", help="default: 12")
    add_options(parser)
    arguments = parser.parse_args()
    check_options(parser, arguments)
    if arguments.precision not in PRECISIONS[arguments.device]:
        parser.error(f"--precision must be of {PRECISIONS[arguments.device]}")
    return arguments


def main() -> None:
    run_comparison("profile_step", compare, parse())


if __name__ == "__main__":
    main()

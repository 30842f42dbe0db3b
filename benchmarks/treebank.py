"""Measure how fast trees are linearised, made of sequences again and scored, in how much memory.

Writes generated trees (see synthetic_trees.py), first a tenth of --trees, then all of them, and
runs on each what a user would, on one core:

    aiayn linearize      reads, normalises and linearises; also writes the words and the gold trees
    aiayn delinearize    makes trees of the sequences again
    aiayn delinearize    the same with a parser's mistakes, --damaged of 100 being no trees
    aiayn evalb          scores the trees that this made against the gold ones

It prints sentences a second and the most memory that each command held. The tenth is run --repeats
times, of which the medians count. Progress goes to standard error.

    python benchmarks/treebank.py --json treebank.json     15 to 30 minutes, 4 GB in $TMPDIR
    python benchmarks/treebank.py --trees 20000              a trial
    python benchmarks/treebank.py --treebank DIR             with real trees for comparison

A --treebank is what `aiayn linearize` reads. Its trees are taken again and again until they are as
many as a tenth of --trees.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "recipes" / "lib"))

from run_settings import ROOT, commit, hardware, packages
from synthetic_trees import predictions, trees

sys.path.insert(0, str(ROOT))

from fairseq_aiayn.evaluation.text_table import aligned_lines
from fairseq_aiayn.files.whole import write_whole
from fairseq_aiayn.treebank.reader import read_trees

SMALLER = 10  # times as many trees in the second run as in the first
FEWEST_TREES = 1_000
TARGETS = {  # sentences a second
    "linearize": 5_000,
    "delinearize": 5_000,
    "delinearize, damaged": 5_000,
    "evalb": 2_000,
}
MOST_GROWTH = 1.1  # of memory, from the first run to the second
OPTIONS = ("trees", "seed", "damaged", "repeats")  # that are recorded
VERDICTS = ("fast_enough", "fast_enough_by_cpu_time", "memory_constant")
MEMORY = "largest resident set of the process, as wait4 reports it"

# A process's largest resident set has in it what it was before it became another program: a copy of
# the one that starts it. So a Python that holds next to nothing does that and measures.
MEASURE = """
import json, os, sys, time
os.sched_setaffinity(0, {int(sys.argv[1])})
started = time.monotonic()
process = os.posix_spawn(sys.argv[2], sys.argv[2:], os.environ)
_, status, usage = os.wait4(process, 0)
seconds = time.monotonic() - started
figures = seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024
print(json.dumps([os.waitstatus_to_exitcode(status), *figures]), file=sys.stderr)
"""


@dataclass(frozen=True)
class Cost:
    """What one command took; less CPU time than time where others used the core too."""

    seconds: float
    cpu_seconds: float
    peak_mib: float


@dataclass(frozen=True)
class Run:
    """What each command took for so many trees; what these were, and how well predicted."""

    trees: int
    words: float  # a tree, as brackets: of words and constituents, once traces are off
    brackets: float
    restored: float  # share of the trees that came back as they were from their own sequences
    well_formed: float  # share of the sequences with mistakes
    f1: float  # per cent
    costs: dict[str, Cost]


def aiayn(command: Sequence[str | Path], output: Path) -> Cost:
    """Run a command of `aiayn` on one core, its output to a file; OSError if it fails."""
    print(f"  aiayn {command[0]}", end="", file=sys.stderr, flush=True)
    program = Path(sys.executable).with_name("aiayn")
    core = max(os.sched_getaffinity(0))
    line = [sys.executable, "-I", "-S", "-c", MEASURE, str(core), program, *command]
    with (
        output.open("wb") as file,
        subprocess.Popen(
            line, stdout=file, stderr=subprocess.PIPE, text=True, start_new_session=True
        ) as process,
    ):
        try:
            _, messages = process.communicate()
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    *messages, last = messages.splitlines()
    if process.returncode:
        raise OSError(f"aiayn {command[0]} was not measured: {last}")
    status, *figures = json.loads(last)
    if status:
        raise OSError(f"aiayn {command[0]} ended with status {status}: {''.join(messages[-1:])}")
    cost = Cost(*(round(figure, 2) for figure in figures))
    print(f": {cost.seconds:,} s, {cost.peak_mib:,} MiB", file=sys.stderr)
    return cost


def measure(sources: Sequence[Path], work: Path, arguments: argparse.Namespace) -> Run:
    """Run every command on the trees of `sources`, files in `work`; OSError if one fails."""
    words, gold, sequences = work / "words", work / "gold.trees", work / "gold.tree"
    predicted, repairs, score = work / "predicted.tree", work / "repairs.json", work / "score.json"
    read = ["linearize", *sources, "--words", words, "--trees", gold]
    costs = [aiayn(read, sequences)]
    with sequences.open(encoding="utf-8") as lines, predicted.open("w", encoding="utf-8") as file:
        file.writelines(predictions(lines, arguments.seed, arguments.damaged))
    again = ["delinearize", sequences, "--words", words]
    costs.append(aiayn(again, work / "again.trees"))
    repair = ["delinearize", predicted, "--words", words, "--report", repairs]
    costs.append(aiayn(repair, work / "predicted.trees"))
    costs.append(aiayn(["evalb", "--json", gold, work / "predicted.trees"], score))
    scored = json.loads(score.read_text(encoding="utf-8"))["all"]
    count = scored["sentences"]
    return Run(
        trees=count,
        words=round(_occurrences(words, b" ", b"\n") / count, 2),
        brackets=round(_occurrences(gold, b"(") / count, 2),
        restored=round(_equal_lines(gold, work / "again.trees") / count, 4),
        well_formed=round(json.loads(repairs.read_text("utf-8"))["well_formed"] / count, 4),
        f1=round(scored["f1"], 2),
        costs=dict(zip(TARGETS, costs, strict=True)),
    )


def _occurrences(path: Path, *signs: bytes) -> int:
    with path.open("rb") as lines:
        return sum(line.count(sign) for line in lines for sign in signs)


def _equal_lines(first: Path, second: Path) -> int:
    with first.open("rb") as one, second.open("rb") as other:
        return sum(map(bytes.__eq__, one, other))


def median(runs: Sequence[Run]) -> Run:
    """Return the run with the median of the costs of all; they had the same trees."""
    costs = {
        name: Cost(*map(statistics.median, zip(*(astuple(run.costs[name]) for run in runs))))
        for name in TARGETS
    }
    return replace(runs[0], costs=costs)


def benchmark(arguments: argparse.Namespace, directory: Path) -> dict[str, Run]:
    """Measure a tenth of the trees, as many of the treebank if there is one, and all trees."""
    fewer = arguments.trees // SMALLER
    sources = {"smaller": [directory / "fewer.mrg"], "larger": [directory / "all.mrg"]}
    if arguments.treebank:
        there = sum(1 for _ in read_trees(arguments.treebank))
        if not there:
            raise ValueError(f"{arguments.treebank}: must have a tree, has none")
        sources["treebank"] = [arguments.treebank] * -(-fewer // there)
    for name, count in (("smaller", fewer), ("larger", arguments.trees)):
        print(f"writing {count:,} trees", file=sys.stderr)
        with sources[name][0].open("w", encoding="utf-8") as file:
            file.writelines(trees(arguments.seed, count))
    runs = {}
    for name, paths in sources.items():
        print(f"{name}:", file=sys.stderr)
        repeats = 1 if name == "larger" else arguments.repeats
        runs[name] = median([measure(paths, directory, arguments) for _ in range(repeats)])
    return runs


def verdict(runs: dict[str, Run]) -> dict[str, dict[str, float | bool]]:
    """Return how fast each command was with all trees, how its memory grew, what targets it met.

    Where others used the core too, only its CPU time says what the command can do.
    """
    smaller, larger = runs["smaller"], runs["larger"]
    found = {}
    for name, target in TARGETS.items():
        cost = larger.costs[name]
        rate, cpu_rate = larger.trees / cost.seconds, larger.trees / cost.cpu_seconds
        growth = cost.peak_mib / smaller.costs[name].peak_mib
        found[name] = {
            "sentences_per_second": round(rate),
            "fast_enough": rate >= target,
            "sentences_per_cpu_second": round(cpu_rate),
            "fast_enough_by_cpu_time": cpu_rate >= target,
            "memory_growth": round(growth, 3),
            "memory_constant": growth <= MOST_GROWTH,
        }
    return found


def report(runs: dict[str, Run]) -> str:
    """Return a table of each run, and the verdict."""
    parts = []
    for name, run in runs.items():
        rows = [["", "sentences/s", "of CPU time", "words/s", "seconds", "peak MiB"]]
        for command, cost in run.costs.items():
            rates = run.trees / cost.seconds, run.trees / cost.cpu_seconds
            cells = [f"{rate:,.0f}" for rate in (*rates, rates[0] * run.words)]
            rows.append([command, *cells, f"{cost.seconds:,.1f}", f"{cost.peak_mib:,.1f}"])
        title = (
            f"{run.trees:,} trees ({name}) of {run.words} words in {run.brackets} brackets; "
            f"predictions: {run.well_formed:.1%} well-formed, F1 {run.f1}"
        )
        parts.append("\n".join([title, *aligned_lines(rows)]))
    lines = []
    for command, found in verdict(runs).items():
        speed, cpu, memory = ("met" if found[key] else "missed" for key in VERDICTS)
        lines.append(
            f"{command}: {TARGETS[command]:,} sentences/s {speed}, of CPU time {cpu}; "
            f"memory grew {found['memory_growth']:.2f} times, at most {MOST_GROWTH} {memory}"
        )
    return "\n\n".join([*parts, "\n".join(lines)])


def result(arguments: argparse.Namespace, runs: dict[str, Run], load: list[float]) -> str:
    """Return all figures and what they must be traced back to, as JSON."""
    content = {
        "machine": hardware(),
        "packages": packages(),
        "commit": commit(),
        "options": {name: getattr(arguments, name) for name in OPTIONS},
        "memory": MEMORY,
        "load_average": {"before": load, "after": [round(n, 2) for n in os.getloadavg()]},
        "written": datetime.now(UTC).isoformat(timespec="seconds"),
        "targets": {"sentences_per_second": TARGETS, "memory_growth": MOST_GROWTH},
        "found": verdict(runs),
        "runs": {name: asdict(run) for name, run in runs.items()},
    }
    return f"{json.dumps(content, indent=2)}\n"


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    number = {"type": int, "metavar": "N"}
    parser.add_argument("--trees", default=1_000_000, **number, help="default: 1000000")
    parser.add_argument("--seed", default=1, **number, help="of trees and mistakes; default: 1")
    parser.add_argument(
        "--damaged", type=float, default=10, metavar="SHARE", help="per cent; default: 10"
    )
    parser.add_argument("--repeats", default=3, **number, help="of the smaller run; default: 3")
    parser.add_argument("--treebank", type=Path, metavar="DIR", help="with real trees")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures as JSON")
    arguments = parser.parse_args()
    if arguments.trees < FEWEST_TREES:
        parser.error(f"--trees must be at least {FEWEST_TREES:,}, got {arguments.trees:,}")
    if arguments.repeats < 1:
        parser.error(f"--repeats must be at least 1, got {arguments.repeats}")
    if not 0 <= arguments.damaged <= 100:
        parser.error(f"--damaged must be from 0 to 100, got {arguments.damaged:g}")
    if arguments.json and not arguments.json.absolute().parent.is_dir():
        parser.error(f"--json must be in a directory that exists, got {arguments.json}")
    return arguments


def main() -> None:
    arguments = parse()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    load = [round(n, 2) for n in os.getloadavg()]
    try:
        with tempfile.TemporaryDirectory(prefix="aiayn-") as directory:
            runs = benchmark(arguments, Path(directory))
        print(report(runs))
        if arguments.json:
            write_whole(arguments.json, result(arguments, runs, load))
    except (OSError, ValueError) as error:
        raise SystemExit(f"treebank: {error}") from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()

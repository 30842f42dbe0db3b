"""Measure how long recipes/wmt14_en_de takes to prepare text, and in how much memory.

Writes a synthetic corpus as a miniature of WMT14's archives, has the recipe make fairseq's binaries
of it (stages 0 to 4), first of a quarter of the pairs, then of all of them, and prints what each
step took and what that means for 4.5M and 36M pairs. Progress goes to standard error.

    python benchmarks/prepare.py --json prepare.json    500,000 pairs, or a million lines
    python benchmarks/prepare.py --pairs 4000           a trial of two minutes, too small to project
    python benchmarks/prepare.py --workers 1 --directory /scratch --keep

The corpus is English and German in its numbers only, see synthetic_text.py. Not in it are the other
languages that the real archives hold, which the recipe unpacks and reads past, and all but 600
sentences of the development and test set: about a minute. The 36M pairs are as many as WMT14 has
for English-French, whose own recipe does without Moses and byte pairs.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from prepare_report import figures, report
from projection import Measured, project
from recipe_cost import INTERVAL, measure_recipe
from synthetic_mirror import write_mirror

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "recipes" / "lib"))

from run_settings import ROOT, commit, hardware, packages

RECIPE = ROOT / "recipes" / "wmt14_en_de"
LEAST_PAIRS = 4_000  # fewer are spoilt too often for cleaning to go on
SMALLER = 4  # times as many pairs in the second run as in the first
CORPORA = (4_500_000, 36_000_000)  # pairs of WMT14, English-German and English-French
DISK_PER_PAIR = 2_500  # bytes
DISK_AT_ALL = 100 * 2**20


def measure(pairs: int, seed: int, workers: int, directory: Path) -> Measured:
    """Run the recipe on `pairs` synthetic pairs in a new `directory`; OSError if it fails."""
    print(f"writing {pairs:,} pairs to {directory}", file=sys.stderr)
    mirror = directory / "mirror"
    manifest = write_mirror(RECIPE / "corpus.toml", seed, pairs, mirror)
    exp = directory / "exp"
    command = [str(RECIPE / "run.sh"), "--mirror", str(mirror), "--manifest", str(manifest)]
    command += ["--exp", str(exp), "--stop_stage", "4", "--needs_mb", "1"]
    steps = measure_recipe([*command, "--workers", str(workers)], exp)
    with (exp / "pieces" / "words").open("rb") as words:
        types = sum(1 for _ in words)
    return Measured(pairs, types, tuple(steps))


@contextmanager
def working_directory(parent: Path | None, keep: bool) -> Iterator[Path]:
    """Make a directory, and remove it at the end unless it is to be kept."""
    made = Path(tempfile.mkdtemp(prefix="aiayn-prepare-", dir=parent))
    try:
        yield made
    finally:
        if keep:
            print(f"everything is in {made}", file=sys.stderr)
        else:
            shutil.rmtree(made, ignore_errors=True)


def require_disk(directory: Path, pairs: int, keep: bool) -> None:
    """Raise OSError unless the disk of `directory` has room for the runs."""
    needed = DISK_AT_ALL + DISK_PER_PAIR * (pairs + (pairs // SMALLER if keep else 0))
    free = shutil.disk_usage(directory).free
    if free < needed:
        raise OSError(
            f"{directory}: must have {needed / 2**20:,.0f} MiB free for {pairs:,} pairs, "
            f"has {free / 2**20:,.0f}"
        )


def benchmark(arguments: argparse.Namespace) -> list[Measured]:
    """Measure a quarter of the pairs, then all of them."""
    with working_directory(arguments.directory, arguments.keep) as work:
        require_disk(work, arguments.pairs, arguments.keep)
        runs = []
        for pairs in (arguments.pairs // SMALLER, arguments.pairs):
            directory = work / f"{pairs}-pairs"
            runs.append(measure(pairs, arguments.seed, arguments.workers, directory))
            if not arguments.keep:
                shutil.rmtree(directory)
    return runs


def write_result(path: Path, arguments: argparse.Namespace, measured: dict[str, object]) -> None:
    """Write the figures and what they must be traced back to; the file appears whole."""
    options = {name: getattr(arguments, name) for name in ("pairs", "seed", "workers")}
    result = {
        "machine": hardware(),
        "packages": packages(),
        "commit": commit(),
        "options": options,
        "memory": f"PSS of all processes of the recipe, every {INTERVAL} s",
        "written": datetime.now(UTC).isoformat(timespec="seconds"),
        **measured,
    }
    part = path.with_name(f"{path.name}.part")
    part.write_text(f"{json.dumps(result, indent=2, ensure_ascii=False)}\n", encoding="utf-8")
    os.replace(part, path)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    number = {"type": int, "metavar": "N"}
    cores = len(os.sched_getaffinity(0))
    parser.add_argument("--pairs", default=500_000, **number, help="default: 500000")
    parser.add_argument("--seed", default=1, **number, help="of the text; default: 1")
    parser.add_argument("--workers", default=cores, **number, help="default: one a core")
    parser.add_argument("--directory", type=Path, metavar="DIR", help="default: the temporary one")
    parser.add_argument("--keep", action="store_true", help="leave corpus and logs in DIR")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures to FILE")
    arguments = parser.parse_args()
    if arguments.pairs < LEAST_PAIRS:
        parser.error(f"--pairs must be at least {LEAST_PAIRS:,}, got {arguments.pairs:,}")
    if arguments.workers < 1:
        parser.error(f"--workers must be at least 1, got {arguments.workers}")
    if arguments.directory and not arguments.directory.is_dir():
        parser.error(f"--directory must be a directory that exists, got {arguments.directory}")
    if arguments.json and not arguments.json.absolute().parent.is_dir():
        parser.error(f"--json must be in a directory that exists, got {arguments.json}")
    return arguments


def main() -> None:
    arguments = parse()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        small, large = benchmark(arguments)
        projections = [project(small, large, pairs) for pairs in CORPORA]
        machine = hardware()
        cores = f"{machine['cores']} cores of {machine['processor']}"
        print(f"recipes/wmt14_en_de, {arguments.workers} workers on {cores}\n")
        print(report(small, large, projections))
        if arguments.json:
            write_result(arguments.json, arguments, figures(small, large, projections))
    except (OSError, ValueError) as error:
        raise SystemExit(f"prepare: {error}") from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()

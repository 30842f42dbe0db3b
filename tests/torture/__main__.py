"""Attack every command at random and print what did not end as it should.

A command that is given bad input must end with one clear line and a status other than 0, or, in
fairseq's commands, with the traceback of an error that fairseq or a library raised; nothing may be
lost, left half-written or executed, and nothing may hang. --seed decides what is tried, --minutes
how much of it.

    make torture                          20 minutes
    make torture MINUTES=60 SEED=7
    python -m torture --seed 7 --only checkpoints --number 41 --keep      (in tests/) one again
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tqdm import tqdm

from torture import archives, checkpoints, folders, options, recipes, streams, trees
from torture.attempt import Attempt
from torture.materials import Materials, make
from torture.server import import_everything

# What attacks, and its share of the time
AREAS: dict[str, tuple[Callable[[Attempt, Materials], None], float]] = {
    "checkpoints": (checkpoints.attack, 3),
    "folders": (folders.attack, 2),
    "trees": (trees.attack, 1),
    "archives": (archives.attack, 1),
    "options": (options.attack, 3),
    "streams": (streams.attack, 1),
    "recipes": (recipes.attack, 4),
    "demo": (recipes.attack_whole, 5),
}


@dataclass
class Tally:
    """What was tried in an area and what was found."""

    seconds: float = 0.0
    attempts: int = 0
    commands: int = 0
    faults: list[str] = field(default_factory=list)


def main() -> int:
    """Run the campaign; the status is 1 where anything was found."""
    arguments = _arguments()
    import_everything()
    directory = Path(tempfile.mkdtemp(prefix="aiayn-torture-"))
    directory.chmod(0o755)
    try:
        materials = make(directory / "materials", [arguments.only] if arguments.only else AREAS)
        end = time.monotonic() + 60 * arguments.minutes
        if arguments.only and arguments.number is not None:
            tallies = {arguments.only: Tally()}
            _try(directory, materials, arguments, arguments.only, arguments.number, tallies)
        else:
            tallies = _campaign(directory, materials, arguments, end)
    finally:
        if arguments.keep:
            print(f"kept: {directory}", file=sys.stderr)
        else:
            shutil.rmtree(directory, ignore_errors=True)
    return _report(tallies, arguments)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m torture",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--minutes", type=float, default=20, help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=1, help="default: %(default)s")
    parser.add_argument("--only", choices=AREAS, help="one area")
    parser.add_argument("--number", type=int, help="one attempt of it")
    parser.add_argument("--keep", action="store_true", help="leave its files where they are")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    return parser.parse_args()


def _campaign(
    directory: Path, materials: Materials, arguments: argparse.Namespace, end: float
) -> dict[str, Tally]:
    """Give every area its share of the time, always the one that is furthest behind it."""
    areas = [arguments.only] if arguments.only else list(AREAS)
    tallies = {area: Tally() for area in areas}
    begin = time.monotonic()
    with tqdm(total=round(end - begin), unit=" s", dynamic_ncols=True, disable=None) as bar:
        while time.monotonic() < end:
            area = min(areas, key=lambda one: tallies[one].seconds / AREAS[one][1])
            _try(directory, materials, arguments, area, tallies[area].attempts, tallies)
            bar.update(round(time.monotonic() - begin) - bar.n)
            bar.set_postfix_str(
                f"{sum(one.commands for one in tallies.values()):,} commands, "
                f"{sum(len(one.faults) for one in tallies.values())} faults"
            )
    return tallies


def _try(
    directory: Path,
    materials: Materials,
    arguments: argparse.Namespace,
    area: str,
    number: int,
    tallies: dict[str, Tally],
) -> None:
    """Make one attempt in a directory of its own and add what it found."""
    folder = directory / f"{area}-{number}"
    folder.mkdir(mode=0o755)
    attempt = Attempt(folder, random.Random(f"{arguments.seed} {area} {number}"))
    begin = time.monotonic()
    AREAS[area][0](attempt, materials)
    attempt.check()
    tally = tallies[area]
    tally.seconds += time.monotonic() - begin
    tally.attempts += 1
    tally.commands += attempt.commands
    for fault in attempt.faults:
        again = f"--seed {arguments.seed} --only {area} --number {number}"
        tally.faults.append(fault)
        tqdm.write(f"python -m torture {again}: {fault}", file=sys.stderr)
    if not arguments.keep:
        shutil.rmtree(folder, ignore_errors=True)


def _report(tallies: dict[str, Tally], arguments: argparse.Namespace) -> int:
    """Print the figures; return the exit status."""
    print(f"{'':12}  attempts  commands  seconds  faults")
    for area, one in tallies.items():
        row = f"{one.attempts:>8,}  {one.commands:>8,}  {one.seconds:>7,.0f}  {len(one.faults):>6}"
        print(f"{area:12}  {row}")
    if arguments.json:
        record = {"seed": arguments.seed, "minutes": arguments.minutes}
        record["areas"] = {
            area: {"attempts": one.attempts, "commands": one.commands, "faults": len(one.faults)}
            for area, one in tallies.items()
        }
        arguments.json.write_text(json.dumps(record, indent=2) + "\n")
    return int(any(one.faults for one in tallies.values()))


if __name__ == "__main__":
    sys.exit(main())

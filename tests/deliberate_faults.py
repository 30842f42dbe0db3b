"""Put deliberate faults into package and recipes, one at a time, and see whether tests notice.

    make faults                                          all of them
    python tests/deliberate_faults.py --only smoothing   those of such a name
    python tests/deliberate_faults.py --draw 12          so many, which the date draws

The faults are in deliberate_faults.txt; each is what a careless change or a misreading of the paper
would make. A process that has imported the libraries forks for each, and runs tests in a copy of
what git has of the repository, with one fault in it: first those of the fault's place, then all.
The tests that caught faults must pass without them. Exits with 1 if a fault was not caught, and
with 2 if the text of a fault is not in the package (in the recipes) exactly once: then the code has
changed, and so must the fault.
"""

import argparse
import importlib
import multiprocessing
import os
import random
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from datetime import date
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE, RECIPES = "fairseq_aiayn", "recipes"
LONGEST = 900  # seconds; tests that a fault makes endless have not caught it
LIBRARIES = ("torch", "torch._dynamo", "matplotlib.pyplot", "nltk", "sacrebleu", "sacremoses")
LIBRARIES += ("scipy.stats", "hypothesis", "fairseq.tasks")


class Fault(NamedTuple):
    """A text in the package, what replaces it, and the tests to try first."""

    tests: str
    file: str
    name: str
    old: str
    new: str

    def homes(self) -> list[Path]:
        """Return the file with the text, once for every time that it is there."""
        folder = ROOT / (RECIPES if self.tests.startswith(RECIPES) else PACKAGE)
        files = [path for path in folder.rglob("*") if path.suffix in (".py", ".sh")]
        files = [path for path in files if str(path).endswith(self.file)]
        return [path for path in files for _ in range(path.read_text("utf-8").count(self.old))]


def faults() -> Iterator[Fault]:
    """Yield the faults of the list beside this file."""
    form = r"(\S+?)(?: (\S+))?: (\w+)\n  (.+?) =>(?: (.+))?\n"
    for found in re.findall(form, Path(__file__).with_suffix(".txt").read_text("utf-8")):
        yield Fault(*found)


class FirstFailure:
    """Writes the name of the first test that fails, or file that cannot be imported, to a file."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.file.read_text("utf-8"):
            self.file.write_text(report.nodeid, "utf-8")

    pytest_collectreport = pytest_runtest_logreport


def run_tests(copy: Path, *tests: str) -> str | None:
    """Run tests in a copy of the repository, in a fork of this process; return the first that
    fails, "" if all pass, and None for another end, as after LONGEST seconds."""
    failed = copy / "failed"
    failed.write_text("")
    if not (child := os.fork()):
        os.setpgid(0, 0)
        with (copy / "log").open("w") as file:
            for stream in (1, 2):
                os.dup2(file.fileno(), stream)
        os.chdir(copy)
        os.environ["PYTHONPATH"] = sys.path[0] = str(copy)
        os._exit(pytest.main(["-xq", "-p", "no:cacheprovider", *tests], [FirstFailure(failed)]))
    select.select([os.pidfd_open(child)], [], [], LONGEST)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # also what its tests have started
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return {0: "", 1: failed.read_text("utf-8")}.get(status)


@contextmanager
def copied() -> Iterator[Path]:
    """Give a copy of what git has of the repository."""
    with tempfile.TemporaryDirectory(prefix="fault-", ignore_cleanup_errors=True) as copy:
        command = f"git ls-files -co --exclude-standard -z | xargs -0 cp -t {copy} --parents"
        subprocess.run(command, shell=True, cwd=ROOT, check=False)  # a file may be gone
        yield Path(copy)


def catching_test(fault: Fault) -> str:
    """Return the first test that fails in a copy with the fault, "" if none does; print it."""
    begun = time.monotonic()
    with copied() as copy:
        home = copy / fault.homes()[0].relative_to(ROOT)
        home.write_text(home.read_text("utf-8").replace(fault.old, fault.new), "utf-8")
        place, _, part = fault.tests.partition(":")
        place = f"tests/{place}" + ".py" * (copy / f"tests/{place}.py").exists()
        failed = run_tests(copy, place, "-k", part) or run_tests(copy, "tests") or ""
    seconds = f"{time.monotonic() - begun:.0f} s"
    print("caught" if failed else "MISSED", fault.name, seconds, failed, flush=True)
    return failed


def failing_anyway(tests: set[str]) -> str | None:
    """Return the first of these tests that fails where there is no fault, as `run_tests` does."""
    with copied() as copy:
        return run_tests(copy, *tests)


def main() -> int:
    """Test the chosen faults, on every core some of them; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", metavar="PATTERN", help="faults of such a name")
    parser.add_argument("--draw", type=int, metavar="N", help="so many of them, drawn by the date")
    given = parser.parse_args()
    chosen = [fault for fault in faults() if re.search(given.only, fault.name)]
    if lost := [fault.name for fault in chosen if len(fault.homes()) != 1]:
        print("not in the package exactly once:", *lost, sep="\n  ")
        return 2
    if given.draw:
        chosen = random.Random(date.today().isoformat()).sample(chosen, given.draw)
    for library in LIBRARIES:
        importlib.import_module(library)
    with ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("fork")) as workers:
        caught = [test for test in workers.map(catching_test, chosen) if test]
        by_file = defaultdict(set)
        for test in caught:
            by_file[test.partition("::")[0]].add(test)
        found = workers.map(failing_anyway, by_file.values())
        wrong = [test for test in found if test != ""]
    print(f"{len(caught)} of {len(chosen)} faults were caught")
    if wrong:
        print("without a fault, too, these fail:", *wrong)
    return int(len(caught) < len(chosen) or bool(wrong))


if __name__ == "__main__":
    raise SystemExit(main())

"""Run a recipe and measure the time and the memory of each of its steps.

A step is a program that a stage runs; the recipe's logs say which one runs. Every 0.2 seconds, or
less often where looking is much work, this looks there and adds up the memory of all the recipe's
processes. Memory is the proportional set size (PSS): a page that several processes share counts
once in all.
"""

from __future__ import annotations

import re
import signal
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

INTERVAL = 0.2  # seconds
BUSY = 0.05  # share of a core that looking may take
PATIENCE = 30  # seconds that a recipe gets to end its programs
LOGGED = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \S+:\d+ (.+)")
STAGE = re.compile(r"stage (\d+-\S+)")
HOUSEKEEPING = {"rm", "mkdir", "mv", "cp", "ln", "cat"}
MIB = 2**20


@dataclass(frozen=True)
class Sample:
    """What was seen at one moment; `step` is empty while a stage has not run a program yet."""

    time: float  # seconds
    stage: str
    step: str
    memory: int  # bytes


@dataclass(frozen=True)
class StepCost:
    """What a program of a stage took, all its runs together."""

    stage: str
    step: str
    seconds: float
    peak_mib: float


def measure_recipe(command: Sequence[str], exp: Path) -> list[StepCost]:
    """Run a recipe that writes to `exp` and return its steps in their order.

    Raises OSError if the recipe fails; whatever ends this call early ends the recipe, too.
    """
    samples = []
    with _running(command) as process:
        while process.poll() is None:
            started = time.thread_time()
            now = time.monotonic()
            samples.append(Sample(now, *current_step(exp), session_memory(process.pid)))
            time.sleep(max(INTERVAL, (time.thread_time() - started) / BUSY))
    if process.returncode:
        raise OSError(f"{command[0]} ended with status {process.returncode}")
    return costs([*samples, Sample(time.monotonic(), *current_step(exp), 0)])


@contextmanager
def _running(command: Sequence[str]) -> Iterator[subprocess.Popen]:
    """Run a command in a session of its own, by which its processes are known, and end it."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def current_step(exp: Path) -> tuple[str, str]:
    """Return the stage that a recipe is in, or was in last, and the last program that it ran."""
    stages = [match[1] for line in _logged(exp / "recipe.log") if (match := STAGE.match(line))]
    if not stages:
        return "", ""
    steps = map(step_name, _logged(exp / "log" / f"{stages[-1]}.log"))
    return stages[-1], next(filter(None, reversed(list(steps))), "")


def _logged(path: Path) -> list[str]:
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    except FileNotFoundError:
        return []
    return [match[1] for line in lines if (match := LOGGED.fullmatch(line))]


def step_name(command: str) -> str:
    """Name the program of a logged command; "" if it only moves files around."""
    words = command.split()
    if words[0] in HOUSEKEEPING:
        return ""
    if words[0] == "python" and words[1].endswith(".py"):
        return Path(words[1]).name
    return " ".join(words[:2]) if words[0] == "subword-nmt" else words[0]


def costs(samples: Sequence[Sample]) -> list[StepCost]:
    """Add up the time until the next sample and find the highest memory, of each step.

    What a stage does before its first program counts with that. The last sample is the end.
    """
    seconds: dict[tuple[str, str], float] = defaultdict(float)
    memory: dict[tuple[str, str], int] = defaultdict(int)
    first: dict[str, str] = {}
    for sample in samples:
        if sample.step:
            first.setdefault(sample.stage, sample.step)
    for sample, following in pairwise(samples):
        if sample.stage:
            key = sample.stage, sample.step or first.get(sample.stage, "")
            seconds[key] += following.time - sample.time
            memory[key] = max(memory[key], sample.memory)
    return [StepCost(*k, round(seconds[k], 2), round(memory[k] / MIB, 1)) for k in seconds]


def by_stage(steps: Iterable[StepCost]) -> dict[str, list[StepCost]]:
    """Return the steps of each stage."""
    stages: dict[str, list[StepCost]] = {}
    for step in steps:
        stages.setdefault(step.stage, []).append(step)
    return stages


def total_seconds(steps: Iterable[StepCost]) -> float:
    """Return the time of steps, one after the other."""
    return sum(step.seconds for step in steps)


def peak_mib(steps: Iterable[StepCost]) -> float:
    """Return the memory of the step that needs most."""
    return max(step.peak_mib for step in steps)


def session_memory(session: int) -> int:
    """Return the proportional set size, in bytes, of all processes of a session."""
    total = 0
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                # Behind the name, which may hold anything: state, parent, group, session.
                fields = (process / "stat").read_text(errors="replace").rpartition(")")[2].split()
                if int(fields[3]) == session:
                    total += _pss(process / "smaps_rollup")
            except (FileNotFoundError, ProcessLookupError):
                continue  # it has ended
    return total


def _pss(path: Path) -> int:
    for line in path.read_text().split("\n"):
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return 0  # it is ending

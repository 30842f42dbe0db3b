"""Processes that measure in turns: each JSON line in is an order, each JSON line out its answer.

While one process measures, the others wait, so that other load on the machine affects all of them
equally. They are killed, with all their children, when the `with` block ends. turn_taking.py is
their part of it.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

Answer = dict[str, float]
HERE = Path(__file__).parent
# Waiting threads spin only briefly before they sleep: on shared cores, long spinning multiplies the
# time.
CALM = {"GOMP_SPINCOUNT": "10000"}
PATIENCE = 30  # seconds that a process gets to end by itself


class WorkerDied(OSError):
    """A process ended before it answered; the message has its last line."""


class Worker:
    """A process that answers orders; what it prints beside the answers goes to its log."""

    def __init__(self, name: str, command: Sequence[str | Path], log: Path):
        """Start Python with these arguments."""
        self.name = name
        self.log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        self.started = time.monotonic()
        with log.open("wb") as file:
            self.process = subprocess.Popen(
                [sys.executable, *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                text=True,
                env=CALM | os.environ,
                start_new_session=True,
            )

    def answer(self) -> Answer:
        """Wait for the next answer; WorkerDied if the process ends without one."""
        line = self.process.stdout.readline()
        if not line:
            raise WorkerDied(self._obituary())
        return json.loads(line)

    def ask(self, **order: object) -> Answer:
        """Give an order and wait for the answer; WorkerDied if the process ends without one."""
        try:
            self.process.stdin.write(f"{json.dumps(order)}\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise WorkerDied(self._obituary()) from None
        return self.answer()

    def _obituary(self) -> str:
        try:
            status = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            return f"{self.name} closed its output"
        lines = self.log.read_text(encoding="utf-8", errors="replace").split("\n")
        last = next(
            (line.strip() for line in reversed(lines) if line.strip()), "it printed nothing"
        )
        return f"{self.name} ended with status {status}: {last} (all of it: {self.log})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Kill the process and all that it started."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass  # it ended by itself, and nothing of it is left
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            try:
                pipe.close()
            except BrokenPipeError:
                pass  # an order that nobody will read


def alternate(
    workers: Sequence[Worker], turns: int, order: Mapping[str, object], title: str
) -> dict[str, list[Answer]]:
    """Give every worker the order in turn, `turns` times: A B A B ...; answers by worker's name.

    One more turn of each goes before and is not among the answers: the first products of a shape
    take longer than those after them. Raises WorkerDied.
    """
    answers: dict[str, list[Answer]] = {worker.name: [] for worker in workers}
    for turn in range(turns + 1):
        now = f"turn {turn} of {turns}" if turn else "warm-up"
        print(f"{title}: {now}", file=sys.stderr, flush=True)
        for worker in workers:
            answer = worker.ask(**order)
            if turn:
                answers[worker.name].append(answer)
    return answers


def start(name: str, program: str, words: Sequence[str], arguments: argparse.Namespace) -> Worker:
    """Start a program of this directory on the device of the options; its log goes to --work."""
    log = arguments.work / "logs" / Path(sys.argv[0]).stem / f"{name.replace(' ', '-')}.log"
    return Worker(name, [HERE / program, arguments.device, *words], log)

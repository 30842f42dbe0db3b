"""Processes that measure in turns: each JSON line in is an order, each JSON line out its answer.

While one process measures, the others wait, so that other load on the machine affects all of them
equally. They are killed, with all their children, when the `with` block ends. turn_taking.py is
their part of it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from typing_extensions import Self

Answer = dict[str, float]
CALM = {"GOMP_SPINCOUNT": "10000"}  # long spinning of threads multiplies the time on shared cores
AS_IT_IS = {"AIAYN_REPAIRS": "launches"}  # left out of stock fairseq, where that needs the plugin
PATIENCE = 30  # seconds that a process gets to end by itself
FEWEST = 5  # rounds that count: quartiles of fewer say little


class Worker:
    """A process that answers orders; what it prints beside the answers goes to its log."""

    def __init__(self, name: str, command: Sequence[str | Path], log: Path):
        """Start Python with these arguments."""
        self.name = name
        self.log = log
        self.started = time.monotonic()
        with log.open("wb") as file:
            self.process = subprocess.Popen(
                [sys.executable, *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                text=True,
                env=CALM | (AS_IT_IS if name.startswith("stock") else {}) | os.environ,
                start_new_session=True,
            )

    def answer(self) -> Answer:
        """Wait for the next answer; ChildProcessError if the process ends without one."""
        line = self.process.stdout.readline()
        if not line:
            raise ChildProcessError(self._obituary())
        return json.loads(line)

    def ask(self, **order: object) -> Answer:
        """Give an order and wait for the answer, as `answer` does."""
        try:
            self.process.stdin.write(f"{json.dumps(order)}\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise ChildProcessError(self._obituary()) from None
        return self.answer()

    def _obituary(self) -> str:
        try:
            status = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            return f"{self.name} closed its output"
        printed = self.log.read_text(encoding="utf-8", errors="replace").strip()
        last = printed.rpartition("\n")[2] or "it printed nothing"
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
    workers: Sequence[Worker], orders: Sequence[dict[str, object]], seconds: float, title: str
) -> dict[str, list[list[Answer]]]:
    """Give every worker each order in turn: A B A B ...; return the answers by worker's name, those
    of all orders together, as often as they fit into so many seconds, and FEWEST times or more.

    One more round goes before, which does not count: the first products of a shape take longer.
    Raises ChildProcessError.
    """
    answers: dict[str, list[list[Answer]]] = {worker.name: [] for worker in workers}
    ends, rounds = time.monotonic() + seconds, 0
    while rounds <= FEWEST or time.monotonic() < ends:
        print(f"{title}: round {rounds}", file=sys.stderr, flush=True)
        given = [[worker.ask(**order) for worker in workers] for order in orders]
        if rounds:
            for worker, of_worker in zip(workers, zip(*given, strict=True), strict=True):
                answers[worker.name].append(list(of_worker))
        rounds += 1
    return answers

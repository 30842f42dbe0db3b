"""Work in several processes, with results in order."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from typing import TypeVar

Work = TypeVar("Work")
Result = TypeVar("Result")
TASKS_PER_WORKER = 3  # one running, the others waiting, or done and waiting for an earlier one


def in_order(
    function: Callable[[Work], Result], tasks: Iterable[Work], workers: int
) -> Iterator[Result]:
    """Yield the result of `function` for each task, which `workers` processes compute. Tasks are
    drawn only as workers need them, so that few are in memory at a time. After the first error of a
    task, or of drawing one, tasks that have not begun are dropped."""
    # Otherwise each process gets a copy of the unflushed output, and prints it when it ends.
    sys.stdout.flush()
    pool = ProcessPoolExecutor(workers, initializer=end_with_parent)
    submitted = (pool.submit(function, task) for task in tasks)
    try:
        running = deque(islice(submitted, TASKS_PER_WORKER * workers))
        while running:
            yield running.popleft().result()
            running.extend(islice(submitted, 1))
    finally:
        pool.shutdown(cancel_futures=True)


def end_with_parent() -> None:
    """Make this worker process ignore Ctrl-C, which its parent handles, and exit with its parent. A
    worker whose parent was killed would otherwise wait forever, or write files that the next run
    uses."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        if parent := multiprocessing.parent_process():
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()

"""Work for several processes, which end with the process that started them."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")

TASKS_PER_WORKER = 3  # one running, the others waiting, or done and waiting for an earlier one


def in_order(
    function: Callable[[Task], Result], tasks: Iterable[Task], workers: int
) -> Iterator[Result]:
    """Yield the result of `function` for each task, which `workers` processes compute.

    Tasks are drawn only as workers need them, so that few are in memory at a time. After the first
    error of a task, or of drawing one, tasks that have not begun are dropped. Raises OSError if a
    worker is killed, ValueError for less than one worker.
    """
    if workers < 1:
        raise ValueError(f"workers must be at least 1, got {workers}")
    # Otherwise each process gets a copy of the unflushed output, and prints it when it ends.
    sys.stdout.flush()
    pool = ProcessPoolExecutor(workers, initializer=end_with_parent)
    running: deque[Future[Result]] = deque()
    try:
        for task in tasks:
            running.append(pool.submit(function, task))
            if len(running) == TASKS_PER_WORKER * workers:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()
    except BrokenProcessPool:
        raise OSError("a worker process was killed; is there too little memory?") from None
    finally:
        pool.shutdown(cancel_futures=True)


def end_with_parent() -> None:
    """Make this worker process ignore Ctrl-C, which its parent handles, and exit with its parent.

    A worker whose parent was killed would otherwise wait forever, or write files that the next run
    uses.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()

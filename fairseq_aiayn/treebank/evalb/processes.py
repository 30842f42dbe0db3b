"""Process many batches with several worker processes, and yield the results in order."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import chain, islice
from typing import TypeVar

from fairseq_aiayn.processes import end_with_parent

Batch = TypeVar("Batch")
Result = TypeVar("Result")

ALONE = 10  # batches that take less time than starting the processes
PER_WORKER = 3  # batches per worker that are waiting or in progress


def in_order(
    function: Callable[[Batch], Result], batches: Iterable[Batch], workers: int
) -> Iterator[Result]:
    """Yield the result of `function` for each batch; if there are many batches, `workers` processes
    compute them.

    Batches are drawn as they are needed, so that few are in memory. Raises OSError if one of the
    processes is killed.
    """
    waiting = iter(batches)
    yield from map(function, islice(waiting, ALONE if workers > 1 else None))
    for batch in waiting:  # there is one more
        yield from _in_processes(function, chain([batch], waiting), workers)


def _in_processes(
    function: Callable[[Batch], Result], batches: Iterable[Batch], workers: int
) -> Iterator[Result]:
    # Otherwise each process gets a copy of the unflushed output, and prints it when it ends.
    sys.stdout.flush()
    pool = ProcessPoolExecutor(workers, initializer=end_with_parent)
    running: deque[Future[Result]] = deque()
    try:
        for batch in batches:
            running.append(pool.submit(function, batch))
            if len(running) == PER_WORKER * workers:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()
    except BrokenProcessPool:
        raise OSError("a worker process was killed; is there too little memory?") from None
    finally:
        pool.shutdown(cancel_futures=True)  # after an error, the waiting batches are not needed

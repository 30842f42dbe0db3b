"""fairseq reads ahead in daemon threads and never stops them. Python kills these threads when it
exits. If one is inside torch at that moment, the whole process ends with SIGABRT ("terminate called
without an active exception"), and the run counts as failed although its last checkpoint is written.
Here, they end before Python does."""

from __future__ import annotations

import atexit
import queue
import threading
import time
from contextlib import suppress

from fairseq.data import iterators

PATIENCE = 60.0  # seconds; a dead file server must not keep a finished run from ending


def ending_in_time(consumer: type) -> type:
    """Replace the thread that reads ahead."""
    atexit.register(end_all)
    return Reader


class Reader(iterators.BackgroundConsumer):
    """fairseq's thread, which can be ended."""

    def end(self, latest: float) -> None:
        """End after the current batch; give up at `latest`, a time of time.monotonic."""
        self._max_len = 0  # it stops when its count of batches reaches this
        while self.is_alive() and time.monotonic() < latest:
            with suppress(queue.Empty):
                self._queue.get(timeout=0.05)  # it waits for room in the queue


def end_all() -> None:
    """End every reader, or give up after PATIENCE."""
    latest = time.monotonic() + PATIENCE
    for thread in threading.enumerate():
        if isinstance(thread, Reader):
            thread.end(latest)

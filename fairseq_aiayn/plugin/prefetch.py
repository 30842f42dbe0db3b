"""A training that stops in the middle of an epoch ends with status 0.

fairseq reads batches ahead in daemon threads and never stops them. Python kills such a thread when
it exits; one that is inside torch at that moment takes the whole process down with SIGABRT
("terminate called without an active exception"): the last checkpoint is written, and the run
counts as failed. `stop_at_exit` lets each reader finish the batch it is at.
"""

from __future__ import annotations

import atexit
import queue
import threading

from fairseq.data.iterators import BackgroundConsumer

PATIENCE = 60.0  # seconds; data on a dead file server must not keep a finished run from ending


def stop_at_exit() -> None:
    """Have `stop` called before Python kills its daemon threads."""
    atexit.register(stop)


def stop() -> None:
    """End every reader after its present batch, or leave it after PATIENCE seconds."""
    for reader in threading.enumerate():
        if isinstance(reader, BackgroundConsumer):
            reader._max_len = 0  # what it compares its count with after each batch
            _drain(reader)


def _drain(reader: BackgroundConsumer) -> None:
    """Take what the reader puts into its queue, where it waits for room, until it ends."""
    pause = 0.05
    for _ in range(int(PATIENCE / pause)):
        if not reader.is_alive():
            return
        try:
            reader._queue.get(timeout=pause)
        except queue.Empty:
            continue

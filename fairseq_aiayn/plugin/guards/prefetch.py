"""Make a training that stops in the middle of an epoch end with status 0.

fairseq reads batches ahead in daemon threads and never stops them. Python kills these threads when
it exits. If one is inside torch at that moment, the whole process ends with SIGABRT ("terminate
called without an active exception"), and the run counts as failed although the last checkpoint is
written. `install` lets each reader finish its current batch.
"""

from __future__ import annotations

import atexit
import queue
import threading

from fairseq.data.iterators import BackgroundConsumer

PATIENCE = 60.0  # seconds; otherwise a dead file server could keep a finished run from ending


def install() -> None:
    """Make Python call `stop` before it kills its daemon threads."""
    atexit.register(stop)


def stop() -> None:
    """End every reader after its current batch, or give up after PATIENCE seconds."""
    for reader in threading.enumerate():
        if isinstance(reader, BackgroundConsumer):
            reader._max_len = 0  # the reader stops when its count of batches reaches this
            _drain(reader)


def _drain(reader: BackgroundConsumer) -> None:
    """Empty the reader's queue until it ends, because it waits for room in the queue."""
    pause = 0.05
    for _ in range(int(PATIENCE / pause)):
        if not reader.is_alive():
            return
        try:
            reader._queue.get(timeout=pause)
        except queue.Empty:
            continue

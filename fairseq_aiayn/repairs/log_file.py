"""fairseq opens --log-file again at every epoch, so that a line of epoch 80 stands there 80 times,
and a training of a thousand epochs has no file descriptors left. Here, it is opened once."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from fairseq.logging import progress_bar


def opening_log_once(
    make_bar: Callable, iterator: Iterable, log_file: str | None = None, **named: object
) -> object:
    """Make the progress bar of an epoch, which opens a file only once."""
    handlers = progress_bar.logger.handlers
    opened = {handler.baseFilename for handler in handlers if hasattr(handler, "baseFilename")}
    is_open = log_file is not None and os.path.abspath(log_file) in opened
    return make_bar(iterator, log_file=None if is_open else log_file, **named)

"""--log-file has each line of a training once.

fairseq opens the file again at every epoch, so that a line of epoch 80 stands there 80 times, and a
training of a thousand epochs has no file descriptors left.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable
from functools import wraps

from fairseq.logging import progress_bar


def install() -> None:
    """Make fairseq's progress bar open a log file only once."""
    if not hasattr(progress_bar.progress_bar, "opens_once"):
        progress_bar.progress_bar = opening_once(progress_bar.progress_bar)


def opening_once(make_bar: Callable) -> Callable:
    """Wrap the function that makes the progress bar of an epoch."""

    @wraps(make_bar)
    def wrapped(iterator: Iterable, log_file: str | None = None, **options: object) -> object:
        is_open = log_file is not None and _is_open(log_file)
        return make_bar(iterator, log_file=None if is_open else log_file, **options)

    wrapped.opens_once = True
    return wrapped


def _is_open(log_file: str) -> bool:
    """Does the progress bar's logger write to this file already?"""
    path = os.path.abspath(log_file)
    files = (one for one in progress_bar.logger.handlers if isinstance(one, logging.FileHandler))
    return any(one.baseFilename == path for one in files)

"""A limit on the size of files stands in for a full disk: a write fails halfway."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def full_disk(free: int) -> Iterator[None]:
    """Let this process write at most so many bytes into each file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (free, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

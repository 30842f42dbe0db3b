"""A kill leaves half a checkpoint_last.pt, because fairseq copies a checkpoint there in place.
Here, a copy appears whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from fairseq.file_io import PathManager


def copied_whole(copy: Callable, source: str, target: str, overwrite: bool = False) -> object:
    """Copy a checkpoint whole or not at all, and at once where the file system has hard links, so
    that a kill does not leave the copy an interval behind."""
    if not PathManager.supports_rename(target):  # such as s3://
        return copy(source, target, overwrite)
    part, copied = f"{target}.tmp", True
    Path(part).unlink(missing_ok=True)
    try:
        os.link(source, part)
    except OSError:
        copied = copy(source, part, overwrite=True)  # iopath returns False where it fails
    if copied:
        os.replace(part, target)
    return copied


def into_new_file(save: Callable, content: object, path: str, async_write: bool = False) -> None:
    """Write a checkpoint into a new file; with --write-checkpoints-asynchronously, fairseq writes
    into the one of that name, which `copied_whole` may have linked to others."""
    if async_write and PathManager.supports_rename(path):
        Path(path).unlink(missing_ok=True)
    save(content, path, async_write)

"""Read fairseq's checkpoints with weights_only: plain data is loaded, nothing is run."""

from __future__ import annotations

import errno
import os
import re
import zipfile
from pathlib import Path
from typing import Any

import torch

from fairseq_aiayn.checkpoints.allowed_globals import SAFE_GLOBALS
from fairseq_aiayn.checkpoints.contents import (
    require_contents,
    require_plain_configuration,
)
from fairseq_aiayn.checkpoints.sizes import require_tensors_of_the_file
from fairseq_aiayn.files.lines import require_plain_file

FORCED = "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"
OLDEST_TORCH = (2, 6)  # the first with (object, name) in its allow-list and weights_only by default


def require_torch(version: str) -> None:
    """Raise ValueError for a PyTorch whose torch.load would run code from a checkpoint."""
    major, minor = version.split(".")[:2]
    if (int(major), int(minor)) < OLDEST_TORCH:
        oldest = ".".join(map(str, OLDEST_TORCH))
        raise ValueError(f"PyTorch {oldest} or later loads checkpoints safely, this is {version}")


_REFUSED = re.compile(r"(?:Unsupported global: GLOBAL|unsupported GLOBAL) (\S+)")


def allow_fairseq_checkpoints() -> None:
    """Let torch.load in this process read fairseq's checkpoints with weights_only.

    Raises ValueError for a PyTorch older than 2.6.
    """
    require_torch(torch.__version__)
    torch.serialization.add_safe_globals(list(SAFE_GLOBALS))


def require_safe_loading() -> None:
    """Raise ValueError if an environment variable lets torch.load run code from a checkpoint."""
    if os.environ.get(FORCED, "0").lower() in ("1", "y", "yes", "true"):
        raise ValueError(f"{FORCED} lets a checkpoint run any command: unset it")


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Return the checkpoint in `path`; its tensors stay on disk until they are used.

    Raises OSError if the file cannot be opened. Raises ValueError, with the path, if the file is
    truncated, asks for anything but plain data (nothing is run), reads the environment, needs more
    memory than the size of the file, or is not a checkpoint of fairseq.
    """
    state = read_plain_data(path)
    require_contents(path, state)
    require_plain_configuration(path, state)
    require_tensors_of_the_file(path, state)
    return state


def read_plain_data(path: Path) -> Any:
    """Return what torch.save wrote to `path`, checked only for being plain data.

    Raises OSError and ValueError as `read_checkpoint` does.
    """
    allow_fairseq_checkpoints()
    require_safe_loading()
    require_plain_file(path)
    try:
        if not is_compressed(path):
            # Those of PyTorch 1.5 and older are not zip files and cannot be mapped into memory
            mapped = zipfile.is_zipfile(path)
            return torch.load(path, map_location="cpu", weights_only=True, mmap=mapped)
    except Exception as error:  # broken bytes can make the unpickler raise any error
        reason = explain_load_error(error)
        if reason is None:
            raise
        raise ValueError(f"{path}: {reason}") from error
    raise ValueError(f"{path}: must be stored uncompressed, as torch.save writes")


def is_compressed(path: Path) -> bool:
    """Return whether the file is a zip archive with more in it than the file has bytes."""
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return sum(part.file_size for part in archive.infolist()) > path.stat().st_size


def require_intact(path: Path) -> None:
    """Raise ValueError if a checkpoint's bytes changed since it was written.

    torch.load does not compare checksums when it maps a file into memory.
    """
    if not zipfile.is_zipfile(path):
        return  # an old checkpoint has no checksums and is read as a whole
    with zipfile.ZipFile(path) as archive:
        damaged = archive.testzip()
    if damaged:
        raise ValueError(f"{path}: damaged, the checksum of its part {damaged} does not match")


def explain_load_error(error: Exception) -> str | None:
    """Return in a few words why torch.load refused a file; None if the file is not the cause."""
    refused = _REFUSED.search(str(error))
    if refused:
        return (
            f"refused, it asks for {refused[1]}, which is not plain data;"
            " nothing of the file was run"
        )
    # In a short file, PyTorch looks for the end by seeking to before the beginning: EINVAL.
    by_system = isinstance(error, OSError) and error.errno != errno.EINVAL
    if by_system or isinstance(error, MemoryError) or "allocate memory" in str(error):
        return None
    return "truncated, or not a PyTorch checkpoint"


def update_number(path: Path) -> int:
    """Return the number of updates after which fairseq wrote the checkpoint, read from the file.

    Raises OSError and ValueError as read_checkpoint does, and ValueError if the number is missing.
    """
    last = read_checkpoint(path)["optimizer_history"][-1]
    if "num_updates" not in last:
        raise ValueError(f"{path}: no number of updates in its 'optimizer_history'")
    return last["num_updates"]


def last_checkpoints(directory: Path, count: int) -> list[Path]:
    """Return the `count` checkpoints with the most updates in `directory`, fewest updates first.

    These are checkpoints of --save-interval-updates (checkpoint_EPOCH_UPDATES.pt) or, if there are
    none, of whole epochs (checkpointEPOCH.pt); never the copies checkpoint_best and
    checkpoint_last. Raises ValueError for count < 1, for too few files, or if two have the same
    number of updates.
    """
    if count < 1:
        raise ValueError(f"the number of checkpoints must be at least 1, got {count}")
    names = sorted(os.listdir(directory))
    found = [name for name in names if re.fullmatch(r"checkpoint_\d+_\d+\.pt", name)] or [
        name for name in names if re.fullmatch(r"checkpoint\d+\.pt", name)
    ]
    if not found and any("-shard" in name for name in names):
        raise ValueError(
            f"{directory}: its checkpoints are shards of --use-sharded-state;"
            " without it, fairseq-train writes each as one file"
        )
    if len(found) < count:
        raise ValueError(f"{directory}: {count} checkpoints asked for, {len(found)} found")
    by_update: dict[int, Path] = {}
    for path in (directory / name for name in found):
        other = by_update.setdefault(update_number(path), path)
        if other != path:
            raise ValueError(f"{other} and {path} are of one update: a directory holds one run")
    return [by_update[update] for update in sorted(by_update)][-count:]

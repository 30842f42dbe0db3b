"""Read fairseq's checkpoints with weights_only on: plain data loads, nothing is run."""

from __future__ import annotations

import argparse
import collections
import errno
import os
import re
import typing
import zipfile
from pathlib import Path

import numpy
import omegaconf
import torch
from omegaconf.base import ContainerMetadata, Metadata

OLDEST_TORCH = (2, 6)  # the first whose allow-list takes (object, name) and whose default refuses


def require_torch(version: str) -> None:
    """Raise ValueError for a PyTorch whose torch.load would run what a checkpoint asks for."""
    major, minor = version.split(".")[:2]
    if (int(major), int(minor)) < OLDEST_TORCH:
        oldest = ".".join(map(str, OLDEST_TORCH))
        raise ValueError(f"PyTorch {oldest} or later loads checkpoints safely, this is {version}")


class Meter:
    """The numbers of a meter that fairseq 0.8 and older saved as an object, without its methods."""


# NumPy's constructors of pickled arrays and scalars have no public name.
_make_array, _make_scalar = (value.__reduce__()[0] for value in (numpy.zeros(0), numpy.float64(0)))
_DTYPES = [type(numpy.dtype(code)) for code in ("i4", "i8", "f4", "f8")]

# What the unpickler may look up: (object, the name under which files have it). All of it builds
# data from data. What calls, imports or looks up by name (functools.partial, getattr, eval) must
# never stand here, nor a class whose construction does.
SAFE_GLOBALS: tuple[tuple[object, str], ...] = (
    # "args", and the model's part of "cfg", whose architecture has no dataclass
    (argparse.Namespace, "argparse.Namespace"),
    # "cfg" as a DictConfig: fairseq between 0.10 and 0.12; today when one process sends a
    # loaded checkpoint to the others. Each value is an AnyNode and has its Metadata, which
    # names the types of containers and keys.
    (omegaconf.DictConfig, "omegaconf.dictconfig.DictConfig"),
    (omegaconf.ListConfig, "omegaconf.listconfig.ListConfig"),
    (omegaconf.AnyNode, "omegaconf.nodes.AnyNode"),
    (ContainerMetadata, "omegaconf.base.ContainerMetadata"),
    (Metadata, "omegaconf.base.Metadata"),
    (collections.defaultdict, "collections.defaultdict"),
    (typing.Any, "typing.Any"),
    (typing.Dict, "typing.Dict"),  # noqa: UP006 - OmegaConf 2.0's, when saved or sent again
    (dict, "builtins.dict"),
    (list, "builtins.list"),
    (int, "builtins.int"),
    # "extra_state": --eval-bleu keeps its n-gram counts as arrays, a metric that was computed
    # from them may be a scalar. NumPy 2 renamed numpy.core; files have either name.
    (numpy.ndarray, "numpy.ndarray"),
    (numpy.dtype, "numpy.dtype"),
    (_make_array, "numpy._core.multiarray._reconstruct"),
    (_make_array, "numpy.core.multiarray._reconstruct"),
    (_make_scalar, "numpy._core.multiarray.scalar"),
    (_make_scalar, "numpy.core.multiarray.scalar"),
    # the unpickler asks for a dtype's own class, which no file names, when it sets its state
    *((kind, f"{kind.__module__}.{kind.__qualname__}") for kind in _DTYPES),
    # "extra_state" of fairseq 0.8 and older: meters as objects. Nothing reads them today.
    (Meter, "fairseq.meters.AverageMeter"),
    (Meter, "fairseq.meters.TimeMeter"),
    (Meter, "fairseq.meters.StopwatchMeter"),
)

_REFUSED = re.compile(r"(?:Unsupported global: GLOBAL|unsupported GLOBAL) (\S+)")


def allow_fairseq_checkpoints() -> None:
    """Let torch.load in this process read fairseq's checkpoints with weights_only on.

    Raises ValueError for a PyTorch older than 2.6.
    """
    require_torch(torch.__version__)
    torch.serialization.add_safe_globals(list(SAFE_GLOBALS))


def read_checkpoint(path: Path) -> dict[str, typing.Any]:
    """Return the checkpoint in `path`; its tensors stay on disk until they are used.

    Raises OSError where the file cannot be opened, ValueError naming it where it is truncated, has
    a class that is not plain data (nothing is run), or is no checkpoint of fairseq.
    """
    allow_fairseq_checkpoints()
    try:
        # Checkpoints of PyTorch 1.5 and older are no zip files and cannot be mapped into memory.
        state = torch.load(
            path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path)
        )
    except Exception as error:  # the unpickler answers broken bytes with any error there is
        reason = explain_load_error(error)
        if reason is None:
            raise
        raise ValueError(f"{path}: {reason}") from error
    for key in ("model", "optimizer_history"):
        if not isinstance(state, dict) or not state.get(key):
            raise ValueError(f"{path}: not a checkpoint of fairseq, it has no {key!r}")
    return state


def require_intact(path: Path) -> None:
    """Raise ValueError if bytes of a checkpoint changed since it was written.

    Mapping a file into memory skips the checksums that torch.load compares otherwise.
    """
    if not zipfile.is_zipfile(path):
        return  # an old checkpoint: read whole, and without checksums
    with zipfile.ZipFile(path) as archive:
        damaged = archive.testzip()
    if damaged:
        raise ValueError(f"{path}: damaged, the checksum of its part {damaged} does not match")


def explain_load_error(error: Exception) -> str | None:
    """Return in a few words why torch.load refused a file, None if the file is not to blame."""
    refused = _REFUSED.search(str(error))
    if refused:
        return (
            f"refused, it asks for {refused[1]}, which is not plain data;"
            " nothing of the file was run"
        )
    # Looking for the end of a short file, PyTorch seeks to before its beginning: EINVAL.
    by_system = isinstance(error, OSError) and error.errno != errno.EINVAL
    if by_system or isinstance(error, MemoryError) or "allocate memory" in str(error):
        return None
    return "truncated, or not a PyTorch checkpoint"


def update_number(path: Path) -> int:
    """Return the number of updates after which fairseq wrote the checkpoint, as the file has it.

    Raises as read_checkpoint does, and ValueError if the file has no such number.
    """
    last = read_checkpoint(path)["optimizer_history"][-1]
    if "num_updates" not in last:
        raise ValueError(f"{path}: no number of updates in its 'optimizer_history'")
    return last["num_updates"]


def last_checkpoints(directory: Path, count: int) -> list[Path]:
    """Return the `count` checkpoints of most updates in `directory`, fewest updates first.

    They are those of --save-interval-updates (checkpoint_EPOCH_UPDATES.pt), or where there is none
    of these, those of whole epochs (checkpointEPOCH.pt); never checkpoint_best or checkpoint_last,
    which are copies. Raises ValueError for count < 1, too few files, or two of one update.
    """
    if count < 1:
        raise ValueError(f"--last must be at least 1, got {count}")
    names = sorted(os.listdir(directory))
    found = [name for name in names if re.fullmatch(r"checkpoint_\d+_\d+\.pt", name)] or [
        name for name in names if re.fullmatch(r"checkpoint\d+\.pt", name)
    ]
    if len(found) < count:
        raise ValueError(
            f"{directory}: --last {count} asked for, {len(found)} checkpoints found (fairseq writes"
            " none where --save-interval-updates falls on the end of an epoch)"
        )
    by_update: dict[int, Path] = {}
    for path in (directory / name for name in found):
        other = by_update.setdefault(update_number(path), path)
        if other != path:
            raise ValueError(f"{other} and {path} are of one update: a directory holds one run")
    return [by_update[update] for update in sorted(by_update)][-count:]

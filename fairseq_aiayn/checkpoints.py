"""Read fairseq's checkpoints without running anything in them, and average them (section 6.1).

A pickle names classes and functions, calls them with its own arguments and sets attributes of the
results. torch.load with weights_only allows PyTorch's own and those that SAFE_GLOBALS lists.
"""

from __future__ import annotations

import argparse
import collections
import errno
import os
import pickletools
import re
import typing
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
from typing import IO, Any
from zipfile import BadZipFile, ZipFile, is_zipfile

import numpy
import omegaconf
import torch
from omegaconf.base import ContainerMetadata, Metadata
from torch import Tensor
from tqdm import tqdm

from fairseq_aiayn.configuration import Allowance, plain, resolved
from fairseq_aiayn.files import require_not_among, require_plain, whole_path

MOST_PARTS = 10_000  # of a tuple, counted as often as they occur in it


class Unread:
    """What old versions of fairseq saved and nothing reads today: meters, and arrays in them."""

    def __init__(self, *arguments: object):
        """Forget the arguments."""

    def __setstate__(self, state: object) -> None:
        """Forget the state."""


class NumberType:
    """The dtype of a number of NumPy. The real class could be made to read any memory."""

    def __init__(self, code: str, *rest: object):
        self.code = code

    def __setstate__(self, state: object) -> None:
        """Ignore the byte order, which is this machine's, and what structured types have."""


def make_number(kind: NumberType, data: bytes) -> int | float:
    """Return a number of NumPy as one of Python; raises ValueError for other types."""
    if not re.fullmatch("b1|[iuf][1248]", kind.code):
        raise ValueError(f"expected a number, got a scalar of {kind.code!r}")
    return numpy.frombuffer(data, kind.code).item()


# What a file gets for the names that it asks for. None of it runs, imports or looks up anything.
SAFE_GLOBALS: list[Any] = [
    argparse.Namespace,  # "args", and the model's part of "cfg"
    # "cfg" in files of fairseq 0.10 to 0.12, and what processes send each other when resuming
    *(omegaconf.DictConfig, omegaconf.ListConfig, omegaconf.AnyNode, ContainerMetadata, Metadata),
    *(collections.defaultdict, dict, list, int),
    *((typing.Any, "typing.Any"), (typing.Dict, "typing.Dict")),  # noqa: UP006
    # "extra_state": numbers such as the best score, and what nothing reads. NumPy 2 renamed core.
    *((NumberType, "numpy.dtype"), (Unread, "numpy.ndarray")),
    *((make_number, f"numpy.{core}.multiarray.scalar") for core in ("core", "_core")),
    *((Unread, f"numpy.{core}.multiarray._reconstruct") for core in ("core", "_core")),
    *((Unread, f"fairseq.meters.{name}Meter") for name in ("Average", "Time", "Stopwatch")),
]
LOAD_LOCK = RLock()  # what torch.load may read is one list for all threads
REFUSED = re.compile(r"(?:Unsupported global: GLOBAL|unsupported GLOBAL) (\S+)")


def read_checkpoint(path: Path, weights: bool = True) -> dict[str, Any]:
    """Return the checkpoint in `path`; its tensors stay on disk until they are used.

    Only a caller that uses no tensor passes weights=False, which saves comparing their checksums.

    Raises OSError if the file cannot be read. Raises ValueError, with the path, if it is truncated
    or damaged, asks for anything but plain data, has references that reach outside its
    configuration, or is not a checkpoint of fairseq.
    """
    require_plain(path)
    state = _load(path, weights)
    try:
        require_contents(state)
        configuration = plain(state.get("cfg"))
        resolved(configuration, configuration, Allowance())
        resolved(plain(state.get("args")), {}, Allowance())  # has no references
    except RecursionError as error:
        raise ValueError(f"{path}: expected a configuration, got one within itself") from error
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    return state


def _load(path: Path, weights: bool) -> Any:
    """Return what a file holds, as plain data; raises as `read_checkpoint` does."""
    # Files of PyTorch 1.5 and older are not zip files, and cannot be mapped into memory; nor can a
    # file whose name is not UTF-8, because PyTorch reads the names of mapped files as UTF-8.
    is_utf8, is_zip = os.fsencode(path) == str(path).encode(errors="replace"), is_zipfile(path)
    try:
        if is_zip:
            require_intact(path, weights)
        else:
            with path.open("rb") as file:
                for _ in range(5):  # a number, a version, the machine, the state, names of tensors
                    require_hashable(file)
        with only_safe_globals():
            return torch.load(path, "cpu", weights_only=True, mmap=is_utf8 and is_zip)
    except Exception as error:  # broken bytes can make the unpickler raise any error
        # In a short file, PyTorch looks for the end by seeking to before the beginning: EINVAL.
        if isinstance(error, OSError) and error.errno != errno.EINVAL:
            raise
        reason = "truncated, or not a PyTorch checkpoint"
        if isinstance(error, BadZipFile):
            reason = f"damaged, use another checkpoint or a copy of this one: {error}"
        if isinstance(error, RecursionError):
            reason = f"refused, {error}"
        if refused := REFUSED.search(str(error)):
            reason = f"refused, it asks for {refused[1]}, which is not plain data"
        raise ValueError(f"{path}: {reason}") from error


def require_intact(path: Path, weights: bool) -> None:
    """Raise BadZipFile if a byte changed since the file was written, in a tensor only with
    `weights`; torch.load compares no checksums."""
    with ZipFile(path) as archive:
        parts = archive.infolist()
        if sum(part.file_size for part in parts) > path.stat().st_size:  # none is compressed
            raise BadZipFile("its parts are larger than the file")
        for part in parts:
            if weights or "/data/" not in part.filename:
                with archive.open(part) as content:
                    while content.read(2**20):
                        pass
            if part.filename.endswith("/data.pkl"):
                with archive.open(part) as content:
                    require_hashable(content)


def require_hashable(pickled: IO[bytes]) -> None:
    """Raise RecursionError for a value whose hash, as the key of a dict, would take hours or more
    than the stack: tuples within tuples, the same ones again and again."""
    stack: list[int] = []  # of each value: how many parts it has
    marks: list[int] = []
    seen: dict[Any, int] = {}
    for operation, index, _ in pickletools.genops(pickled):
        if "GET" in operation.name:
            stack.append(seen[index])
        elif "PUT" in operation.name:
            seen[index] = stack[-1]
        elif operation.name == "MARK":
            marks.append(len(stack))
        else:
            taken = operation.stack_before
            first = len(stack) - len(taken)
            if pickletools.markobject in taken:
                first = marks.pop() - taken.index(pickletools.markobject)
            size = 1 + sum(stack[first:])
            if "TUPLE" in operation.name and size > MOST_PARTS:
                raise RecursionError("it has values within values without end")
            stack[first:] = [size] * len(operation.stack_after)


@contextmanager
def only_safe_globals(*more: Any) -> Iterator[None]:
    """Let torch.load read what SAFE_GLOBALS lists, and `more`, and nothing that others allowed; at
    the end it is as before."""
    with LOAD_LOCK:
        before = torch.serialization.get_safe_globals()
        torch.serialization.clear_safe_globals()
        torch.serialization.add_safe_globals([*SAFE_GLOBALS, *more])
        try:
            yield
        finally:
            torch.serialization.clear_safe_globals()
            torch.serialization.add_safe_globals(before)


def require_contents(state: Any) -> None:
    """Raise ValueError for content that fairseq could not load."""
    state = state if isinstance(state, dict) else {}
    options = [plain(state.get(key)) for key in ("args", "cfg")]
    history, extra = state.get("optimizer_history"), state.get("extra_state")
    newest = history[-1] if isinstance(history, list) and history else None
    contents = {
        "model": isinstance(state.get("model"), Mapping),
        "cfg": any(options) and all(isinstance(one, dict | None) for one in options),
        "optimizer_history": isinstance(newest, dict),
        "extra_state": isinstance(extra, dict) or (extra is None and "epoch" in state),
    }
    if missing := [name for name, is_there in contents.items() if not is_there]:
        raise ValueError(f"expected a checkpoint of fairseq, it has no {missing[0]!r}")
    for name, value in state["model"].items():
        dense = isinstance(value, Tensor) and value.layout is torch.strided and not value.is_meta
        if not isinstance(name, str) or not name.isprintable() or not dense:
            raise ValueError(
                f"expected dense tensors by their names in 'model', got {str(name)[:60]!r}"
            )


# --- the last checkpoints ---------------------------------------------------------------------


def last_checkpoints(directory: Path, count: int) -> list[Path]:
    """Return the `count` checkpoints with the most updates in `directory`, fewest updates first.

    These are checkpoints of --save-interval-updates (checkpoint_EPOCH_UPDATES.pt) or, if there are
    none, of whole epochs (checkpointEPOCH.pt); never the copies checkpoint_best and
    checkpoint_last. Raises ValueError for count < 1, for too few files, or if two have the same
    number of updates.
    """
    if count < 1:
        raise ValueError(f"expected at least 1 checkpoint to average, got --last {count}")
    names = sorted(os.listdir(directory))
    numbered = [name for name in names if re.fullmatch(r"checkpoint_\d+_\d+\.pt", name)]
    found = numbered or [name for name in names if re.fullmatch(r"checkpoint\d+\.pt", name)]
    if len(found) < count:
        raise ValueError(f"{directory}: expected {count} or more checkpoints, got {len(found)}")
    return by_updates([directory / name for name in found])[-count:]


def by_updates(paths: Sequence[Path]) -> list[Path]:
    """Return checkpoints in the order of their updates; raises ValueError if two have the same
    number of updates."""
    found: dict[int, Path] = {}
    for path in paths:
        update = read_checkpoint(path, weights=False)["optimizer_history"][-1].get("num_updates")
        if not isinstance(update, int):
            raise ValueError(f"{path}: no number of updates in its 'optimizer_history'")
        if update in found:
            raise ValueError(f"{found[update]} and {path} are of one update: average one run's")
        found[update] = path
    return [found[update] for update in sorted(found)]


# --- averaging --------------------------------------------------------------------------------


# What fairseq needs to load a model. The rest belongs to a single checkpoint, not to their mean:
# the optimizer's state, meters, the best score, a moving average of the parameters.
KEPT = ("args", "cfg", "criterion", "task_state", "optimizer_history")
KEPT_EXTRA_STATE = ("train_iterator", "epoch", "batch_offset")  # the last two: before fairseq 0.6


def average(paths: Sequence[Path], output: Path) -> None:
    """Write the mean of checkpoints to `output`, with the options of the last one; raises
    ValueError if checkpoints are broken or differ in their parameters, OSError if a file cannot be
    read or written; `output` is then left unchanged."""
    if not output.parent.is_dir():  # before the minutes that averaging takes
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(output))
    require_not_among("--output", output, paths)
    newest = read_checkpoint(paths[-1], weights=False)
    state = {key: newest[key] for key in KEPT if key in newest}
    extra = newest.get("extra_state") or {}
    state["extra_state"] = {key: extra[key] for key in KEPT_EXTRA_STATE if key in extra}
    write_checkpoint(state | {"model": mean_parameters(paths)}, output)


def mean_parameters(paths: Sequence[Path]) -> dict[str, Tensor]:
    """Return the mean of every parameter and buffer over the checkpoints in `paths`.

    Memory holds one float64 sum of the parameters, so that the mean of equal values is exactly that
    value. Means have the dtype of the parameter, but float32 instead of half precision, whose
    rounding would undo the averaging. Parameters that are one tensor in the first checkpoint (tied
    embeddings) are one in the means. Raises ValueError for parameters that differ, NaN or infinity.
    """
    first = read_checkpoint(paths[0], weights=False)["model"]  # its checksums are compared below
    owners = _owners(first)
    sums = {
        name: torch.zeros_like(first[name], dtype=torch.float64)
        if first[name].is_floating_point()
        else first[name].clone()  # integers and booleans have no mean
        for name in set(owners.values())
    }
    for path in tqdm(paths, desc="averaging", unit="checkpoint", disable=None):
        model = read_checkpoint(path)["model"]
        for name, tensor in model.items():
            if not tensor.isfinite().all():
                raise ValueError(f"{path}: {name} has values that are NaN or infinite")
        require_same_parameters(path, model, paths[0], first)
        for name, total in sums.items():
            if total.is_floating_point():
                total += model[name]
    for name, total in sums.items():
        if total.is_floating_point():
            dtype = torch.promote_types(first[name].dtype, torch.float32)
            sums[name] = total.div_(len(paths)).to(dtype)
    return {name: sums[owner] for name, owner in owners.items()}


def require_same_parameters(
    path: Path, model: Mapping[str, Tensor], first_path: Path, first: Mapping[str, Tensor]
) -> None:
    """Raise ValueError, with the path and the parameter, unless a checkpoint has the parameters of
    the first one: their shapes and types, the same ones tied, equal integers."""
    here, there = (
        {name: f"{list(tensor.shape)} of {tensor.dtype}" for name, tensor in one.items()}
        for one in (model, first)
    )
    for name in there | here:
        found, expected = here.get(name, "missing"), there.get(name, "missing")
        if found != expected:
            raise ValueError(f"{path}: {name} is {found}, in {first_path} it is {expected}")
    for name, owner in _owners(first).items():
        if not torch.equal(model[name], model[owner]):
            raise ValueError(f"{path}: {name} is not {owner}, in {first_path} it is")
        if not model[name].is_floating_point() and not torch.equal(model[name], first[name]):
            raise ValueError(f"{path}: {name} differs from {first_path}; integers have no mean")


def _owners(model: Mapping[str, Tensor]) -> dict[str, str]:
    """Map each name to the first name of its tensor: the name itself if it is not tied."""
    first: dict[tuple, str] = {}
    owners = {}
    for name, tensor in model.items():
        identity = (tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), tensor.dtype)
        owners[name] = first.setdefault(identity, name) if tensor.numel() else name
    return owners


def write_checkpoint(state: dict[str, Any], output: Path) -> None:
    """Write `state` to `output`, whole or not at all; raises OSError with the path `output`."""
    try:
        with whole_path(output) as part, part.open("wb") as file:
            torch.save(state, file)
    except (OSError, RuntimeError) as error:
        # If writing fails, torch raises its own RuntimeError instead of the OSError.
        failure = error if isinstance(error, OSError) else error.__context__
        if not isinstance(failure, OSError):
            raise
        raise OSError(failure.errno, failure.strerror, str(output)) from error

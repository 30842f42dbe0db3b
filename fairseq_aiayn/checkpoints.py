"""The names that a checkpoint's pickle may use, and the object that each name stands for.

A pickle names classes and functions, calls them with its own arguments and sets attributes of the
results. torch.load with weights_only allows only PyTorch's own tensors and the names listed here.
So no object listed here may run, import or look up anything, or allocate memory of any size, as
NumPy's constructors do. Functions of this module make arrays, scalars and dtypes, of plain numbers
only. Types that a file only mentions (`builtins.dict` in a configuration's metadata) get stand-ins
that cannot be called.
"""

from __future__ import annotations

import argparse
import collections
import errno
import math
import os
import re
import typing
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy
import omegaconf
import torch
from omegaconf.base import ContainerMetadata, Metadata
from torch import Tensor
from tqdm import tqdm

from fairseq_aiayn.text import require_plain_file, whole_path

NUMBERS = {  # codes of dtypes that hold numbers and no references
    *("b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"),
}
BYTE_ORDERS = {"<", ">", "=", "|"}


class Meter:
    """A meter, which fairseq 0.8 and older saved as an object: its numbers without its methods."""


class Mentioned:
    """A stand-in for a type that a file mentions, while the file is read."""

    def __init__(self, kind: type):
        self.kind = kind


def real_type(value: object) -> object:
    """Return the type that a stand-in stands for, and any other value unchanged."""
    return value.kind if type(value) is Mentioned else value


class RestoredMetadata(Metadata):
    """A node's Metadata while the file is read; it mentions types."""

    def __setstate__(self, state: dict) -> None:
        """Become a plain Metadata."""
        self.__dict__.update({str(key): real_type(value) for key, value in dict(state).items()})
        self.__class__ = Metadata


class RestoredContainerMetadata(ContainerMetadata):
    """A container's metadata while the file is read; it mentions types."""

    def __setstate__(self, state: dict) -> None:
        """Become a plain ContainerMetadata."""
        self.__dict__.update({str(key): real_type(value) for key, value in dict(state).items()})
        self.__class__ = ContainerMetadata


def make_defaultdict(factory: object = None) -> collections.defaultdict:
    """Return an empty defaultdict, as OmegaConf uses for its cache of resolvers.

    Raises ValueError for a factory that is not a type listed here.
    """
    if factory is not None and type(factory) is not Mentioned:
        raise ValueError("a defaultdict's factory must be a type")
    return collections.defaultdict(real_type(factory))


class NumericType:
    """A NumPy dtype of numbers, while the file is read; raises ValueError for other dtypes."""

    def __init__(self, code: str, align: object = False, copy: object = True):
        if code not in NUMBERS:
            raise ValueError(f"a dtype must be one of numbers, got {code!r}")
        self.code, self.order = code, "="

    def __setstate__(self, state: tuple) -> None:
        """Set the byte order; the rest of a dtype's state is for structured types only."""
        if state[1] not in BYTE_ORDERS:
            raise ValueError(f"a dtype's byte order must be one of < > = |, got {state[1]!r}")
        self.order = state[1]

    @property
    def dtype(self) -> numpy.dtype:
        """The real dtype, built from the checked values."""
        return numpy.dtype(self.code).newbyteorder(self.order)


class NumericArray(numpy.ndarray):
    """An array of numbers from a file; saved again, it becomes a plain NumPy array."""

    def __setstate__(self, state: tuple) -> None:
        """Set shape, dtype, order and bytes; raises ValueError if they do not match."""
        _, shape, kind, fortran, data = state
        if type(kind) is not NumericType or not isinstance(data, bytes):
            raise ValueError("an array must be of numbers")
        dtype = kind.dtype
        if any(type(size) is not int or size < 0 for size in shape):
            raise ValueError(f"an array's shape must be of whole numbers, got {shape!r}")
        if math.prod(shape) * dtype.itemsize != len(data):
            raise ValueError(f"an array of shape {shape!r} must not have {len(data)} bytes")
        super().__setstate__((1, tuple(shape), dtype, bool(fortran), data))

    def __reduce__(self) -> tuple:
        return self.view(numpy.ndarray).__reduce__()


def make_array(kind: object = None, shape: object = None, code: object = None) -> NumericArray:
    """Return an array without elements, whatever the file asks for; `__setstate__` fills it."""
    return numpy.ndarray.__new__(NumericArray, (0,), "i1")


def make_scalar(kind: NumericType, data: bytes) -> numpy.generic:
    """Return a NumPy number; raises ValueError if the bytes are not exactly one number."""
    if type(kind) is not NumericType or not isinstance(data, bytes):
        raise ValueError("a scalar must be a number")
    if len(data) != kind.dtype.itemsize:
        raise ValueError(f"a scalar of type {kind.code} must not have {len(data)} bytes")
    return numpy.frombuffer(data, kind.dtype)[0]


# (the object that a file gets, the name that it asks for, why the object is harmless)
ALLOWED: tuple[tuple[object, str, str], ...] = (
    # "args", and the model's part of "cfg", whose architecture has no dataclass
    (argparse.Namespace, "argparse.Namespace", "holds attributes, has no code of its own"),
    # "cfg" as a DictConfig: in files of fairseq 0.10 to 0.12, and today when one process sends a
    # loaded checkpoint to the others. Each value is an AnyNode with its own Metadata.
    (omegaconf.DictConfig, "omegaconf.dictconfig.DictConfig", "a container of nodes"),
    (omegaconf.ListConfig, "omegaconf.listconfig.ListConfig", "a container of nodes"),
    (omegaconf.AnyNode, "omegaconf.nodes.AnyNode", "holds a value; interpolations are refused"),
    (RestoredContainerMetadata, "omegaconf.base.ContainerMetadata", "attributes of a container"),
    (RestoredMetadata, "omegaconf.base.Metadata", "attributes of a node"),
    (make_defaultdict, "collections.defaultdict", "empty; its factory is a mentioned type"),
    (typing.Any, "typing.Any", "a typing form, cannot be called"),
    (typing.Dict, "typing.Dict", "a typing form, cannot be called"),  # noqa: UP006
    (Mentioned(dict), "builtins.dict", "a stand-in, cannot be called"),
    (Mentioned(list), "builtins.list", "a stand-in, cannot be called"),
    (Mentioned(int), "builtins.int", "a stand-in, cannot be called"),
    # "extra_state": --eval-bleu keeps its n-gram counts as arrays, and a metric computed from them
    # may be a scalar. NumPy 2 renamed numpy.core; files have either name.
    (Mentioned(numpy.ndarray), "numpy.ndarray", "a stand-in, cannot be called"),
    (NumericType, "numpy.dtype", "a dtype of numbers, checked"),
    (make_array, "numpy._core.multiarray._reconstruct", "always without elements"),
    (make_array, "numpy.core.multiarray._reconstruct", "the same"),
    (make_scalar, "numpy._core.multiarray.scalar", "one number, checked"),
    (make_scalar, "numpy.core.multiarray.scalar", "the same"),
    # "extra_state" of fairseq 0.8 and older has meters as objects. Nothing reads them today.
    (Meter, "fairseq.meters.AverageMeter", "attributes that nothing reads"),
    (Meter, "fairseq.meters.TimeMeter", "the same"),
    (Meter, "fairseq.meters.StopwatchMeter", "the same"),
)
# The unpickler sets the state of an object only if its type is listed, too. This name starts with a
# line end, where a name in a file would stop, so that no file can ask for it.
BUILT: tuple[object, str] = (NumericArray, "\nnumeric array")
SAFE_GLOBALS: tuple[tuple[object, str], ...] = (
    *((value, name) for value, name, _ in ALLOWED),
    BUILT,
)


# Check what a fairseq checkpoint holds, before anything is built from it.


CONFIGURATIONS = ("args", "cfg")  # the first before fairseq 0.10, the second since
# fairseq's configurations have about 500 values on 4 levels. OmegaConf copies a list for every
# reference to it, so that a few nested lists could fill the memory.
MOST_VALUES, DEEPEST = 10_000, 50


def require_plain_configuration(path: Path, state: Mapping[str, Any]) -> None:
    """Raise ValueError for a configuration that is not plain data.

    It must not have tensors, more values or levels than a real one, or interpolations that reach
    outside of it: OmegaConf would replace `${oc.env:HOME}` by an environment variable. References
    within it, such as `${optimization.lr}`, are allowed: fairseq 0.10 to 0.12 writes them.
    """
    for key in CONFIGURATIONS:
        for names, leaf in leaves(path, state.get(key)):
            where = ".".join(map(str, (key, *names)))
            if isinstance(leaf, Tensor):
                raise ValueError(f"{path}: {where[:60]} must be a plain value, is a tensor")
            _, reference, rest = leaf.partition("${") if isinstance(leaf, str) else ("", "", "")
            if reference and ":" in rest:
                raise ValueError(
                    f"{path}: {where} must not be computed when it is read, is {leaf[:60]!r}"
                )


def leaves(path: Path, value: Any) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield every value of a configuration that is not a container, with the names that lead to it.

    Raises ValueError, with the path, for more values or levels than a configuration can have.
    """
    waiting, count = [((), value)], 0
    while waiting:
        names, value = waiting.pop()
        count += 1
        if count > MOST_VALUES or len(names) > DEEPEST:
            raise ValueError(
                f"{path}: a configuration must have at most {MOST_VALUES:,} values in {DEEPEST}"
                " levels"
            )
        if isinstance(value, omegaconf.Node):
            waiting.append((names, written(value)))
        elif members := [*parts(value)]:
            waiting.extend(((*names, name), part) for name, part in members)
        else:
            yield names, value


def plain_configuration(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration of a checkpoint that `require_plain_configuration` has accepted, as
    dictionaries, lists and values."""
    configuration = state.get("cfg") if state.get("cfg") is not None else state.get("args")
    return _plain(configuration)


def _plain(value: Any) -> Any:
    value = written(value)
    if isinstance(value, Mapping | argparse.Namespace):
        return {str(name): _plain(part) for name, part in parts(value)}
    is_list = isinstance(value, Sequence | set) and not isinstance(value, str | bytes)
    return [_plain(part) for _, part in parts(value)] if is_list else value


def parts(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the members of a container in a configuration, uninterpolated, by name or index."""
    value = written(value)
    if isinstance(value, argparse.Namespace):
        value = vars(value)
    if isinstance(value, Mapping):
        yield from value.items()
    elif isinstance(value, Sequence | set) and not isinstance(value, str | bytes):
        yield from enumerate(value)


def written(value: Any) -> Any:
    """Return the content of an OmegaConf node, uninterpolated, and any other value unchanged."""
    if isinstance(value, omegaconf.Container):
        return value._content
    return value._value() if isinstance(value, omegaconf.Node) else value


def require_contents(path: Path, state: Any) -> None:
    """Raise ValueError, with path and field, for content that fairseq could not load."""
    model = state.get("model") if isinstance(state, dict) else None
    if not model or not isinstance(model, Mapping):
        raise ValueError(f"{path}: not a checkpoint of fairseq, it has no 'model'")
    for name, value in model.items():
        if not isinstance(name, str) or not isinstance(value, Tensor):
            raise ValueError(
                f"{path}: 'model' must be parameters by their names, has {name!r} of type"
                f" {type(value).__name__}"
            )
    configurations = [written(state[key]) for key in CONFIGURATIONS if state.get(key) is not None]
    if not configurations:
        raise ValueError(f"{path}: not a checkpoint of fairseq, it has neither 'args' nor 'cfg'")
    if not all(isinstance(one, Mapping | argparse.Namespace) for one in configurations):
        raise ValueError(f"{path}: a configuration ('args' or 'cfg') must have values by names")
    if not isinstance(state.get("args"), argparse.Namespace | None):
        raise ValueError(f"{path}: 'args' must be a Namespace, is a {type(state['args']).__name__}")
    history = state.get("optimizer_history")
    if not history or not isinstance(history, list) or not isinstance(history[-1], dict):
        raise ValueError(f"{path}: not a checkpoint of fairseq, it has no 'optimizer_history'")
    if state.get("extra_state") is None and "epoch" not in state:
        raise ValueError(f"{path}: not a checkpoint of fairseq, it has no 'extra_state'")


# Refuse checkpoints that need more memory than the size of their file.
#
# A file of a few KB can declare a tensor's shape and a configuration's sizes as large as it
# likes, and both are used unchecked: a copy of a tensor has as many elements as its shape says,
# and fairseq builds the model that the configuration declares.


# Suffixes of fairseq's names for the sizes of a model
SIZES = ("_layers", "_dim", "_heads", "d_k", "d_v")


def require_tensors_of_the_file(path: Path, state: Mapping[str, Any]) -> None:
    """Raise ValueError, with the path, unless all tensors of a checkpoint fit into its file.

    A tensor with a stride of 0 repeats its numbers and can have more elements than the file has
    bytes. A tensor with two names (tied embeddings) counts once.
    """
    found = list(tensors(state))
    for tensor in found:
        if not is_plain(tensor):
            raise ValueError(
                f"{path}: its tensors must be plain numbers, one is a {type(tensor).__name__} of"
                f" {tensor.layout} on {tensor.device}"
            )
    size = path.stat().st_size
    needed = sum(one.numel() * one.element_size() for one in distinct(found))
    if needed > size:
        raise ValueError(
            f"{path}: its tensors must fit into the file of {size:,} bytes, their shapes ask for"
            f" {needed:,}"
        )


def tensors(value: Any) -> Iterator[Tensor]:
    """Yield every tensor in nested dicts and lists, once per reference to it."""
    waiting, seen = [value], set()
    while waiting:
        value = waiting.pop()
        if isinstance(value, Tensor):
            yield value
        elif id(value) not in seen:
            seen.add(id(value))
            waiting.extend(part for _, part in parts(value))


def is_plain(tensor: Tensor) -> bool:
    """Return whether a tensor is a dense array of plain numbers in CPU memory."""
    kind = type(tensor) in (Tensor, torch.nn.Parameter) and tensor.device.type == "cpu"
    odd = tensor.is_quantized or tensor.is_nested or tensor.layout != torch.strided
    return kind and not odd


def distinct(found: Iterable[Tensor]) -> Iterable[Tensor]:
    """Return each tensor once, however many names it has."""
    return {identity(one): one for one in found}.values()


def identity(tensor: Tensor) -> tuple:
    """Return a key that is the same for all names of a tensor and differs between nonempty ones."""
    return tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), tensor.dtype


def require_declared_sizes(path: Path, state: Mapping[str, Any]) -> None:
    """Raise ValueError, with the path, if a configuration's layers have more parameters than the
    file.

    This counts the matrices of attention and feed-forward, which fairseq's Transformer and the
    paper's both have; so this module needs no list of a model's other parameters. The rest, an
    embedding of the user's dictionary, cannot be wider than these matrices allow.
    """
    held = sum(one.numel() for one in distinct(state["model"].values()))
    for key in CONFIGURATIONS:
        sizes = declared_sizes(path, key, state, held)
        for side in ("encoder", "decoder"):
            needed = layer_parameters(side, sizes)
            if needed > held:
                raise ValueError(
                    f"{path}: the layers of its {side} must be among its {held:,} parameters, the"
                    f" configuration declares {needed:,} for them"
                )


def declared_sizes(path: Path, key: str, state: Mapping[str, Any], most: int) -> dict[str, int]:
    """Return the sizes in the model's part of a configuration, by fairseq's names (encoder_layers).

    Raises ValueError for a size that is not a whole number of at most `most`.
    """
    configuration = state.get(key)
    model = dict(parts(configuration)).get("model") if key == "cfg" else configuration
    sizes: dict[str, int] = {}
    for names, size in leaves(path, model):
        name = "_".join(map(str, names))  # encoder.layers is another spelling of encoder_layers
        if size is None or not name.endswith(SIZES):
            continue
        if not isinstance(size, int) or not 0 <= size <= most:
            raise ValueError(
                f"{path}: {name[:60]} must be a whole number of at most the {most:,} parameters of"
                f" its model, is {str(size)[:60]!r}"
            )
        sizes[name] = max(size, sizes.get(name, 0))
    return sizes


def layer_parameters(side: str, sizes: Mapping[str, int]) -> int:
    """Count the weights of W^Q, W^K, W^V, W^O, W_1 and W_2 in the layers of one side."""
    N, d_model, d_ff, h = (
        sizes.get(f"{side}_{name}", 0)
        for name in ("layers", "embed_dim", "ffn_embed_dim", "attention_heads")
    )
    # fairseq's own Transformer has d_k = d_v = d_model / h.
    own = "d_k" in sizes and "d_v" in sizes
    attention = h * (sizes["d_k"] + sizes["d_v"]) if own else 2 * d_model
    return 2 * N * d_model * (attention + d_ff)


# Read fairseq's checkpoints with weights_only: plain data is loaded, nothing is run.


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


# Average the parameters of the last checkpoints of a run (section 6.1).


# What fairseq needs to load a model. The rest belongs to a single checkpoint, not to their mean:
# the optimizer's state, meters, the best score, a moving average of the parameters.
KEPT = ("args", "cfg", "model", "criterion", "task_state", "optimizer_history")
KEPT_EXTRA_STATE = ("train_iterator", "epoch", "batch_offset")  # the last two: before fairseq 0.6


def average_last(count: int, directory: Path, output: Path) -> list[Path]:
    """Write the mean of the last `count` checkpoints in `directory` to `output`.

    Returns the paths of these checkpoints. Raises ValueError if checkpoints are missing, broken or
    differ in their parameters, OSError if a file cannot be read or written; `output` is then left
    unchanged.
    """
    paths = last_checkpoints(directory, count)
    if not output.parent.is_dir() or (output.exists() and not output.is_file()):
        raise ValueError(f"{output}: must be a plain file in a directory that exists")
    if output.exists() and any(output.samefile(path) for path in paths):
        raise ValueError(f"{output}: is one of the checkpoints to average")
    state = inference_state(read_checkpoint(paths[-1]))
    state["model"] = mean_parameters(paths)
    write_checkpoint(state, output)
    return paths


def inference_state(state: dict[str, Any]) -> dict[str, Any]:
    """Return the part of a checkpoint that is needed for translating or fine-tuning."""
    kept = {key: state[key] for key in KEPT if key in state}
    extra = state.get("extra_state", {})
    kept["extra_state"] = {key: extra[key] for key in KEPT_EXTRA_STATE if key in extra}
    return kept


def mean_parameters(paths: list[Path]) -> dict[str, Tensor]:
    """Return the mean of every parameter and buffer over the checkpoints in `paths`.

    Means of half-precision parameters are float32. Memory holds one float64 sum of the parameters
    and one checkpoint at a time. Raises ValueError with the file and the parameter that does not
    match.
    """
    sums = None
    for path in tqdm(paths, desc="averaging", unit="checkpoint", disable=None):
        require_intact(path)
        model = read_checkpoint(path)["model"]
        if sums is None:
            sums = ParameterSums(path, model)
        else:
            sums.add(path, model)
    assert sums is not None, "last_checkpoints returns at least one"
    return sums.means()


class ParameterSums:
    """The sums of the parameters of checkpoints with the same parameters.

    Sums are float64, so that the mean of equal values is exactly that value. Means have the dtype
    of the parameter, but float32 instead of half precision, whose rounding would undo the
    averaging. Integers and booleans have no mean: they must be equal. Parameters that are one
    tensor in the first checkpoint (tied embeddings) must be equal in the others, and are one tensor
    in the means: `owners` maps each name to the first name of its tensor.
    """

    def __init__(self, path: Path, model: dict[str, Tensor]) -> None:
        """Start the sums with the parameters `model` of the checkpoint in `path`."""
        _require_finite(path, model)
        self.path, self.count = path, 1
        self.layout = {name: (tuple(tensor.shape), tensor.dtype) for name, tensor in model.items()}
        self.owners = _owners(model)
        self.sums = {
            name: tensor.double() if tensor.is_floating_point() else tensor.clone()
            for name, tensor in model.items()
            if self.owners[name] == name
        }

    def add(self, path: Path, model: dict[str, Tensor]) -> None:
        """Add the parameters `model` of the checkpoint in `path`."""
        self._require_same_layout(path, model)
        _require_finite(path, model)
        for name, owner in self.owners.items():
            if name != owner:
                if not torch.equal(model[name], model[owner]):
                    raise ValueError(f"{path}: {name} is not {owner}, in {self.path} it is")
            elif model[name].is_floating_point():
                self.sums[name] += model[name]
            elif not torch.equal(self.sums[name], model[name]):
                raise ValueError(
                    f"{path}: {name} differs from {self.path}; it is of {model[name].dtype},"
                    " which has no mean"
                )
        self.count += 1

    def means(self) -> dict[str, Tensor]:
        """Return the means and free the sums."""
        means = {}
        for name in list(self.sums):
            total = self.sums.pop(name)
            if total.is_floating_point():
                dtype = torch.promote_types(self.layout[name][1], torch.float32)
                total = total.div_(self.count).to(dtype)
            means[name] = total
        return {name: means[owner] for name, owner in self.owners.items()}

    def _require_same_layout(self, path: Path, model: dict[str, Tensor]) -> None:
        for name in [*self.layout, *model]:
            if (name in model) != (name in self.layout):
                has, lacks = (path, self.path) if name in model else (self.path, path)
                raise ValueError(f"{lacks}: has no parameter {name}, {has} has it")
        for name, (shape, dtype) in self.layout.items():
            tensor = model[name]
            if (tuple(tensor.shape), tensor.dtype) != (shape, dtype):
                raise ValueError(
                    f"{path}: {name} is {list(tensor.shape)} of {tensor.dtype},"
                    f" in {self.path} it is {list(shape)} of {dtype}"
                )


def _require_finite(path: Path, model: dict[str, Tensor]) -> None:
    for name, tensor in model.items():
        if not tensor.isfinite().all():
            raise ValueError(f"{path}: {name} has values that are NaN or infinite")


def _owners(model: dict[str, Tensor]) -> dict[str, str]:
    """Map each name to the first name of its tensor: the name itself if it is not tied."""
    first: dict[tuple, str] = {}
    return {
        name: first.setdefault(identity(tensor), name) if tensor.data_ptr() else name
        for name, tensor in model.items()
    }


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

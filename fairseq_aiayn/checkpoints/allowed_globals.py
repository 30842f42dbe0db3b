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
import math
import typing

import numpy
import omegaconf
from omegaconf.base import ContainerMetadata, Metadata

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

"""What the pickle of a checkpoint may name, and what it gets for the name.

A pickle names classes and functions, calls them with arguments of its own and sets attributes of
what they return. torch.load with weights_only allows only the names that are listed here, besides
its own tensors. So nothing here may run, import or look up anything, and nothing that takes memory
as it comes, as NumPy's constructors do, is handed out: arrays, scalars and dtypes are made by
functions of this module, of plain numbers only, and types that a file only mentions
(`builtins.dict` in a configuration's metadata) are stand-ins that cannot be called.
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
    """The numbers of a meter that fairseq 0.8 and older saved as an object, without its methods."""


class Mentioned:
    """Stands for a type that a file mentions, while the file is read."""

    def __init__(self, kind: type):
        self.kind = kind


def real_type(value: object) -> object:
    """The type that a stand-in stands for; anything else as it is."""
    return value.kind if type(value) is Mentioned else value


class RestoredMetadata(Metadata):
    """A node's Metadata, which mentions types, while the file is read."""

    def __setstate__(self, state: dict) -> None:
        """Become a plain Metadata."""
        self.__dict__.update({str(key): real_type(value) for key, value in dict(state).items()})
        self.__class__ = Metadata


class RestoredContainerMetadata(ContainerMetadata):
    """The same of a container."""

    def __setstate__(self, state: dict) -> None:
        """Become a plain ContainerMetadata."""
        self.__dict__.update({str(key): real_type(value) for key, value in dict(state).items()})
        self.__class__ = ContainerMetadata


def make_defaultdict(factory: object = None) -> collections.defaultdict:
    """An empty defaultdict, as OmegaConf's cache of resolvers is; ValueError for a factory other
    than a type that is listed here."""
    if factory is not None and type(factory) is not Mentioned:
        raise ValueError("a defaultdict's factory must be a type")
    return collections.defaultdict(real_type(factory))


class NumericType:
    """A NumPy dtype of numbers, while the file is read; ValueError for any other."""

    def __init__(self, code: str, align: object = False, copy: object = True):
        if code not in NUMBERS:
            raise ValueError(f"a dtype must be one of numbers, got {code!r}")
        self.code, self.order = code, "="

    def __setstate__(self, state: tuple) -> None:
        """Take the byte order; the rest of a dtype's state is of structured types."""
        if state[1] not in BYTE_ORDERS:
            raise ValueError(f"a dtype's byte order must be one of < > = |, got {state[1]!r}")
        self.order = state[1]

    @property
    def dtype(self) -> numpy.dtype:
        """The real one, made anew of what was checked."""
        return numpy.dtype(self.code).newbyteorder(self.order)


class NumericArray(numpy.ndarray):
    """An array of a file, numbers only. Saved again it is NumPy's own."""

    def __setstate__(self, state: tuple) -> None:
        """Take shape, dtype, order and bytes; ValueError where they do not fit each other."""
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
    """An array without elements, which `__setstate__` fills, whatever the file asks for."""
    return numpy.ndarray.__new__(NumericArray, (0,), "i1")


def make_scalar(kind: NumericType, data: bytes) -> numpy.generic:
    """A number of NumPy's; ValueError where its bytes are not those of one."""
    if type(kind) is not NumericType or not isinstance(data, bytes):
        raise ValueError("a scalar must be a number")
    if len(data) != kind.dtype.itemsize:
        raise ValueError(f"a scalar of type {kind.code} must not have {len(data)} bytes")
    return numpy.frombuffer(data, kind.dtype)[0]


# (what a file gets, the name it asks for, why that can do no harm)
ALLOWED: tuple[tuple[object, str, str], ...] = (
    # "args", and the model's part of "cfg", whose architecture has no dataclass
    (argparse.Namespace, "argparse.Namespace", "holds attributes, has no code of its own"),
    # "cfg" as a DictConfig: fairseq between 0.10 and 0.12; today when one process sends a
    # loaded checkpoint to the others. Each value is an AnyNode and has its Metadata.
    (omegaconf.DictConfig, "omegaconf.dictconfig.DictConfig", "a container of nodes"),
    (omegaconf.ListConfig, "omegaconf.listconfig.ListConfig", "a container of nodes"),
    (omegaconf.AnyNode, "omegaconf.nodes.AnyNode", "holds a value; interpolations are refused"),
    (RestoredContainerMetadata, "omegaconf.base.ContainerMetadata", "attributes of a container"),
    (RestoredMetadata, "omegaconf.base.Metadata", "attributes of a node"),
    (make_defaultdict, "collections.defaultdict", "empty, of a type that is mentioned"),
    (typing.Any, "typing.Any", "a typing form, cannot be called"),
    (typing.Dict, "typing.Dict", "a typing form, cannot be called"),  # noqa: UP006
    (Mentioned(dict), "builtins.dict", "a stand-in, cannot be called"),
    (Mentioned(list), "builtins.list", "a stand-in, cannot be called"),
    (Mentioned(int), "builtins.int", "a stand-in, cannot be called"),
    # "extra_state": --eval-bleu keeps its n-gram counts as arrays, a metric that was computed
    # from them may be a scalar. NumPy 2 renamed numpy.core; files have either name.
    (Mentioned(numpy.ndarray), "numpy.ndarray", "a stand-in, cannot be called"),
    (NumericType, "numpy.dtype", "one of numbers, checked"),
    (make_array, "numpy._core.multiarray._reconstruct", "without elements, whatever is asked for"),
    (make_array, "numpy.core.multiarray._reconstruct", "the same"),
    (make_scalar, "numpy._core.multiarray.scalar", "one number, checked"),
    (make_scalar, "numpy.core.multiarray.scalar", "the same"),
    # "extra_state" of fairseq 0.8 and older: meters as objects. Nothing reads them today.
    (Meter, "fairseq.meters.AverageMeter", "attributes that nothing reads"),
    (Meter, "fairseq.meters.TimeMeter", "the same"),
    (Meter, "fairseq.meters.StopwatchMeter", "the same"),
)
# The unpickler sets the state of what it made only if the type of that is listed, too. A name in a
# file ends with its line, so that none can ask for this.
BUILT: tuple[object, str] = (NumericArray, "\nnumeric array")
SAFE_GLOBALS: tuple[tuple[object, str], ...] = (
    *((value, name) for value, name, _ in ALLOWED),
    BUILT,
)

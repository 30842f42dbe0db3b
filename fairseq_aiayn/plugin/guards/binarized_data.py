"""Check binarized data before it is used, and name a damaged file at once.

fairseq trusts an index. If the index was cut short or overwritten, the training ends with an error
of NumPy, at the start or after hours, or it silently trains on wrong sentences. A token that is not
in the dictionary ends in "index out of range", or on a GPU in an error about the device.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path

import numpy as np
from fairseq.data import Dictionary, FairseqDataset, indexed_dataset

from fairseq_aiayn.files.lines import require_plain_file
from fairseq_aiayn.plugin.guards.checked import checked

AGAIN = "run fairseq-preprocess again"
CHUNK = 1 << 20  # tokens that are checked at a time, to stay in the cache of the processor
WHOLE_NUMBERS = {1: "u1", 2: "i1", 3: "i2", 4: "i4", 5: "i8", 8: "u2", 9: "u4", 10: "u8"}
NEW_HEADER, OLD_HEADER = struct.Struct("<9sQBQ"), struct.Struct("<8s5Q")
NEW_MAGIC, OLD_MAGIC = b"MMIDIDX\0\0", b"TNTIDX\0\0"


@dataclass(frozen=True)
class Index:
    """The content of an index, which describes its .bin: the type of the tokens, the number of
    tokens of each sentence [n], and the number of the dictionary's first type."""

    tokens: np.dtype
    sizes: np.ndarray
    first: int


def install() -> None:
    """Make fairseq check every file of binarized data before it creates a dataset from it."""
    indexed_dataset.make_dataset = looking(indexed_dataset.make_dataset)
    indexed_dataset.dataset_exists = checked(indexed_dataset.dataset_exists, require_both)


def looking(make_dataset: Callable) -> Callable:
    """Wrap the function through which fairseq opens all binarized data; `path` has no ending.

    The wrapped function raises ValueError, with the name of the file, for a file that is damaged or
    does not fit the dictionary.
    """

    @wraps(make_dataset)
    def make(
        path: str,
        impl: str,
        fix_lua_indexing: bool = False,
        dictionary: Dictionary | None = None,
    ) -> FairseqDataset | None:
        require_both(path, impl)
        if impl in READERS and Path(f"{path}.idx").exists():
            require_sound(path, impl, dictionary)
        try:
            dataset = make_dataset(path, impl, fix_lua_indexing, dictionary)
        except UnicodeDecodeError as error:  # --dataset-impl raw
            raise ValueError(f"{path}: must be UTF-8, is not: {error.reason}") from error
        if dataset is None and Path(f"{path}.idx").exists():
            raise ValueError(f"{path}.idx: not an index of --dataset-impl {impl}")
        return dataset

    return make


def require_both(path: str, impl: str) -> None:
    """Raise ValueError if only one of .idx and .bin exists, or if one is a pipe or a device."""
    files = [Path(f"{path}{ending}") for ending in (".idx", ".bin")]
    missing = [file for file in files if not file.exists()]
    if len(missing) == 1:
        raise ValueError(f"{missing[0]}: missing; {AGAIN}")
    for file in files:
        require_plain_file(file)


def require_sound(path: str, impl: str, dictionary: Dictionary | None) -> None:
    """Raise ValueError unless an index, its .bin and the dictionary fit each other.

    Without a dictionary (alignments), any number is a valid token, and a sentence may be empty. The
    .bin is read once, in chunks, and is not kept in memory.
    """
    file = Path(f"{path}.idx")
    try:
        index = READERS[impl](mapped(file, np.dtype("u1")))
    except struct.error:
        raise ValueError(f"{file}: cut short (no header); {AGAIN}") from None
    except ValueError as error:
        raise ValueError(f"{file}: damaged or cut short ({error}); {AGAIN}") from None
    if not index.sizes.size:
        raise ValueError(f"{file}: must have at least one sentence, has none")
    if index.sizes.min() < (0 if dictionary is None else 1):
        raise ValueError(f"{file}: damaged (a sentence without tokens); {AGAIN}")
    data = file.with_suffix(".bin")
    expected, size = index.sizes.sum(dtype=np.int64) * index.tokens.itemsize, data.stat().st_size
    if size != expected:
        raise ValueError(f"{data}: must have {expected:,} bytes by its .idx, has {size:,}; {AGAIN}")
    if dictionary is not None:
        require_known_tokens(data, index, len(dictionary))


def mapped(file: Path, kind: np.dtype) -> np.ndarray:
    """Return the numbers of a file [m], mapped into memory: they are read when they are used."""
    return np.memmap(file, kind, mode="r") if file.stat().st_size else np.empty(0, kind)


def require_known_tokens(data: Path, index: Index, K: int) -> None:
    """Raise ValueError, with the number of the sentence, for a token that is not one of the K types
    of the dictionary."""
    tokens, below = mapped(data, index.tokens), K + index.first
    for start in range(0, tokens.size, CHUNK):
        part = tokens[start : start + CHUNK]
        if part.max() >= below or part.min() < index.first:
            place = start + int(((part >= below) | (part < index.first)).argmax())
            sentence = int(np.searchsorted(np.cumsum(index.sizes), place, side="right")) + 1
            raise ValueError(
                f"{data}: the tokens must be of the dictionary's {K:,} types, sentence"
                f" {sentence:,} has number {int(tokens[place]) - index.first:,}: another"
                f" dictionary's, or damaged; {AGAIN}"
            )


def read_new(index: np.ndarray) -> Index:
    """Read an index of --dataset-impl mmap from its bytes; raises ValueError if it contradicts
    itself."""
    magic, version, code, n = NEW_HEADER.unpack_from(index)
    require_header(magic == NEW_MAGIC and version == 1, code)
    tokens = np.dtype(WHOLE_NUMBERS[code])
    sizes, starts = split(index[NEW_HEADER.size :], ("i4", n), ("i8", n))
    if not np.array_equal(starts, (np.cumsum(sizes, dtype=np.int64) - sizes) * tokens.itemsize):
        raise ValueError("sentences do not follow each other")
    return Index(tokens, sizes, 0)


def read_old(index: np.ndarray) -> Index:
    """Read an index of --dataset-impl cached or lazy, whose tokens count from 1, from its bytes;
    raises ValueError if it contradicts itself."""
    magic, version, code, itemsize, n, n_sizes = OLD_HEADER.unpack_from(index)
    require_header(magic == OLD_MAGIC and version == 1 and n_sizes == n, code)
    tokens = np.dtype(WHOLE_NUMBERS[code])
    parts = ("i8", n + 1), ("i8", n + 1), ("i8", n)
    dimensions, starts, sizes = split(index[OLD_HEADER.size :], *parts)
    ends = np.concatenate([[0], np.cumsum(sizes)])
    ordered = np.array_equal(dimensions, np.arange(n + 1)) and np.array_equal(starts, ends)
    if itemsize != tokens.itemsize or not ordered:
        raise ValueError("sentences do not follow each other")
    return Index(tokens, sizes, 1)


def require_header(known: bool, code: int) -> None:
    """Raise ValueError for a different kind of index, and for tokens that are not integers."""
    if not known:
        raise ValueError("not an index of this --dataset-impl")
    if code not in WHOLE_NUMBERS:
        raise ValueError(f"its tokens are of the unknown type {code}")


def split(data: np.ndarray, *arrays: tuple[str, int]) -> list[np.ndarray]:
    """Split bytes [m] into arrays, each given by its type and its length; raises ValueError unless
    they fit exactly."""
    lengths = [np.dtype(kind).itemsize * count for kind, count in arrays]
    if sum(lengths) != data.size:
        raise ValueError(f"it must have {sum(lengths):,} bytes after its header, has {data.size:,}")
    found, start = [], 0
    for (kind, _), length in zip(arrays, lengths, strict=True):
        found.append(data[start : start + length].view(kind))
        start += length
    return found


READERS = {"mmap": read_new, "cached": read_old, "lazy": read_old}

"""A vocabulary with fairseq's numbers, read from a dictionary file of fairseq-preprocess."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from fairseq_aiayn.files.parallel_text import read_lines

SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")  # the first types of every dictionary of fairseq
PADDING, END, UNKNOWN = 1, 2, 3
OVERWRITES = " #fairseq:overwrite"  # lets a line replace one of the special types


@dataclass(frozen=True)
class Vocabulary:
    """The types of one language, in the order of their numbers."""

    types: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.types)

    @cached_property
    def number(self) -> dict[str, int]:
        """The number of each type."""
        return {one: number for number, one in enumerate(self.types)}

    def numbers(self, pieces: Iterable[str]) -> list[int]:
        """Return the numbers of pieces and of the end token; unknown pieces are <unk>."""
        return [*(self.number.get(piece, UNKNOWN) for piece in pieces), END]

    def pieces(self, numbers: Sequence[int]) -> list[str]:
        """Return the types of these numbers without end tokens."""
        return [self.types[number] for number in numbers if number != END]


def read_vocabulary(path: Path) -> Vocabulary:
    """Read lines of a type and its count, in the order of their numbers.

    Raises OSError, or ValueError with the line if it is not such a line or repeats a type.
    """
    types = {one: None for one in SPECIAL}
    for number, line in enumerate(read_lines(path), start=1):
        overwrites = line.endswith(OVERWRITES)
        one, space, count = line.removesuffix(OVERWRITES).rpartition(" ")
        if not space or not count.removeprefix("-").isdigit():
            raise ValueError(f"{path}: line {number} must be a type and its count, is {line!r}")
        if one in types and not overwrites:
            raise ValueError(f"{path}: line {number} repeats the type {one!r}")
        types[one] = None
    return Vocabulary(tuple(types))

"""A vocabulary with fairseq's numbers, read from a dictionary file of fairseq-preprocess."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from fairseq_aiayn.files.lines import require_plain_file

SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")  # the first types of every dictionary of fairseq
BEGIN, PADDING, END, UNKNOWN = range(4)
REPLACES = "#fairseq:overwrite"  # at the end of a line whose type may already be there
BYTE_ORDER_MARK = "\ufeff"


@dataclass(frozen=True)
class Vocabulary:
    """The types of one language, in the order of their numbers."""

    types: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.types)

    @cached_property
    def number(self) -> dict[str, int]:
        """The number of each type; of a type that a later line replaces, the later one."""
        return {one: number for number, one in enumerate(self.types)}

    def numbers(self, pieces: Iterable[str]) -> list[int]:
        """Return the numbers of pieces and of the end token; unknown pieces are <unk>."""
        return [*(self.number.get(piece, UNKNOWN) for piece in pieces), END]

    def pieces(self, numbers: Sequence[int]) -> list[str]:
        """Return the types of these numbers without <s> and </s>."""
        return [self.types[number] for number in numbers if number not in (BEGIN, END)]


def read_vocabulary(path: Path, special: Iterable[str] = SPECIAL) -> Vocabulary:
    """Read lines of a type and its count; the special types come first.

    Raises OSError, or ValueError with the file and the line for another line or a type that is
    there already.
    """
    require_plain_file(path)
    try:
        lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        number = error.object[: error.start].count(b"\n") + 1
        raise ValueError(f"{path}:{number}: must be UTF-8, is not") from None
    if lines == [""]:
        raise ValueError(f"{path}: must have one word per line, is empty")
    if lines[0].startswith(BYTE_ORDER_MARK):
        raise ValueError(f"{path}:1: must begin with a word, begins with a byte order mark")
    types = list(special)
    known = set(types)
    for number, line in enumerate(lines, start=1):
        word, replaces = _word(line, f"{path}:{number}")
        if word in known and not replaces:
            raise ValueError(f"{path}:{number}: must be a new word, {word[:60]!r} is there already")
        types.append(word)
        known.add(word)
    return Vocabulary(tuple(types))


def _word(line: str, where: str) -> tuple[str, bool]:
    """Return the type of a line, and whether it may replace another."""
    word, _, count = line.rstrip().rpartition(" ")
    replaces = count == REPLACES
    if replaces:
        word, _, count = word.rpartition(" ")
    if not word.strip() or not (count.isascii() and count.isdigit() and len(count) < 19):
        raise ValueError(f"{where}: must be a word and how often it occurs, is {line[:60]!r}")
    return word, replaces

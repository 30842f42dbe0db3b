"""Read the lines of a gold and a predicted tree file in pairs, one pair at a time."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from fairseq_aiayn.files.lines import STANDARD_INPUT, source_name, stream_lines


def read_line_pairs(gold: str | Path, predicted: str | Path) -> Iterator[tuple[str, str]]:
    """Yield the lines of two files in pairs; either may be gzip (.gz) and one may be "-", standard
    input.

    Raises OSError if a file cannot be read, and ValueError for a file without lines, different
    numbers of lines, bytes that are not UTF-8, and gzip that is cut short.
    """
    paths = gold, predicted
    if all(path == STANDARD_INPUT for path in paths):
        raise ValueError("gold and predicted trees must not both come from standard input")
    texts = [stream_lines(path) for path in paths]
    number = 0
    for number, lines in enumerate(zip_longest(*texts), start=1):
        if None in lines:
            counts = [
                number - 1 if line is None else number + sum(1 for _ in text)
                for line, text in zip(lines, texts, strict=True)
            ]
            raise ValueError(_different_numbers(paths, counts))
        yield lines
    if not number:
        raise ValueError(_different_numbers(paths, [0, 0]))


def _different_numbers(paths: tuple[str | Path, str | Path], counts: list[int]) -> str:
    for path, count in zip(paths, counts, strict=True):
        if not count:
            return f"{source_name(path)}: empty, must have one tree per line"
    gold, predicted = map(source_name, paths)
    return f"{predicted}: must have the {counts[0]:,} lines of {gold}, has {counts[1]:,}"

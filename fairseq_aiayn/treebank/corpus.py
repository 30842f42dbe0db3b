"""The trees of a corpus in the form used for training: read and normalized one at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from fairseq_aiayn.files.lines import source_name, stream_lines
from fairseq_aiayn.treebank.normalization import normalize
from fairseq_aiayn.treebank.reader import parse_trees, read_trees
from fairseq_aiayn.treebank.trees import Constituent


def normalized_trees(path: str | Path, collapse_unary: bool = False) -> Iterator[Constituent]:
    """Yield the normalized trees of `read_trees`.

    Raises OSError and ValueError like `read_trees`, and ValueError with the number of the tree if
    `normalize` refuses it.
    """
    for number, tree in enumerate(read_trees(path), start=1):
        try:
            yield normalize(tree, collapse_unary)
        except ValueError as error:
            raise ValueError(f"{source_name(path)}: tree {number:,}: {error}") from None


def normalized_lines(
    path: str | Path, collapse_unary: bool, refused: list[str]
) -> Iterator[Constituent]:
    """Yield the normalized trees of a file with one tree per line, as parsers write it.

    A line that is not a tree is skipped, and the reason is appended to `refused`. Raises OSError,
    and ValueError if the text is not UTF-8.
    """
    name = source_name(path)
    for number, line in enumerate(stream_lines(path), start=1):
        try:
            trees = [normalize(tree, collapse_unary) for tree in parse_trees([line.encode()], name)]
            if not trees:
                raise ValueError("the line is empty")
        except ValueError as error:  # its line number is 1, because only this line was parsed
            refused.append(f"{name}:{number}: {str(error).removeprefix(f'{name}:1: ')}")
        else:
            yield from trees

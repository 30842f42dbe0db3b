"""The trees of a corpus as they are trained on: read and normalised, one at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from fairseq_aiayn.treebank.lines import read_lines, source_name
from fairseq_aiayn.treebank.normalization import normalize
from fairseq_aiayn.treebank.reader import parse_trees, read_trees
from fairseq_aiayn.treebank.trees import Constituent


def normalized_trees(path: str | Path, collapse_unary: bool = False) -> Iterator[Constituent]:
    """Read what `read_trees` reads, normalised.

    Raises OSError and ValueError as that does, and ValueError naming the number of a tree that
    `normalize` refuses.
    """
    for number, tree in enumerate(read_trees(path), start=1):
        try:
            yield normalize(tree, collapse_unary)
        except ValueError as error:
            raise ValueError(f"{source_name(path)}: tree {number:,}: {error}") from None


def normalized_lines(
    path: str | Path, collapse_unary: bool, refused: list[str]
) -> Iterator[Constituent]:
    """Read a file of one tree per line, as parsers write them, normalised; of a line that is no
    tree the reason goes to `refused`, and the next one follows.

    Raises OSError, and ValueError where the text is not UTF-8.
    """
    name = source_name(path)
    for number, line in enumerate(read_lines(path), start=1):
        try:
            trees = [normalize(tree, collapse_unary) for tree in parse_trees([line.encode()], name)]
            if not trees:
                raise ValueError("the line is empty")
        except ValueError as error:  # which counts the lines of this one alone
            refused.append(f"{name}:{number}: {str(error).removeprefix(f'{name}:1: ')}")
        else:
            yield from trees

"""The trees of a corpus as they are trained on: read and normalised, one at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from fairseq_aiayn.treebank.lines import source_name
from fairseq_aiayn.treebank.normalization import normalize
from fairseq_aiayn.treebank.reader import read_trees
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

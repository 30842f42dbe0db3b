"""Trees as sequences (section 6.3, after Vinyals et al. 2015); repair.py reverses it.

    (TOP (S (NP (DT the) (NN board)) (VP (VBD met))))
    (S (NP DT NN )NP (VP VBD )VP )S

The order is depth first: "(LABEL" opens a constituent, ")LABEL" closes it, and each word is
replaced by its tag or by XX. The words themselves are only in the source. TOP is not written.

Treebank trees are normalized before. Function tags are removed (NP-SBJ-1 and NP=2 become NP), and
so are traces. A few treebank labels have two alternatives, and keep the first: ADVP|PRT becomes
ADVP and PRT|ADVP becomes PRT, which count as equal in scoring. PRT stays PRT. The tags of words
stay unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Literal

from fairseq_aiayn.files import source_name, stream_lines
from fairseq_aiayn.treebank.forms import reader_of, without_features
from fairseq_aiayn.treebank.trees import (
    ATOM,
    ROOT_LABEL,
    WRAPPERS,
    Constituent,
    Word,
    parse_trees,
    read_trees,
    walk,
    write_tree,
)

__all__ = [
    "MAX_OPEN",
    "Tags",
    "linearize",
    "normalized_lines",
    "normalized_trees",
    "source_text",
    "split_symbol",
]

Tags = Literal["pos", "XX"]
ANY_WORD = "XX"
# Nested brackets of a normalized tree, whose functions call themselves for each: Python allows
# 1,000 calls inside each other. Treebanks stay below 100.
MAX_DEPTH = 400
MAX_OPEN = MAX_DEPTH - 2  # nested constituents, without TOP around them and the word's bracket

# "(NP", ")NP" or, without a bracket, the symbol of a word
SYMBOL = re.compile(rf"([()]?)({ATOM}+)")
# fairseq's own symbols: <s>, <unk>, <<unk>>, madeupword0000
FAIRSEQ_SYMBOL = re.compile(r"<.*>|madeupword\d+")
WORD = re.compile(rf"{ATOM}+")
# A word-piece model marks the beginning of a word with U+2581, and fairseq splits at white space.
NOT_IN_SOURCE = re.compile(r"[\u2581\s]")


def linearize(tree: Constituent, tags: Tags) -> list[str]:
    """Return the symbols of a normalized tree, with the tag of each word ("pos") or with XX."""
    symbols: list[str] = []
    for node in walk(tree):
        if isinstance(node, str):
            symbols.append(f"){node}")
        elif isinstance(node, Word):
            symbols.append(node.tag if tags == "pos" else ANY_WORD)
        else:
            symbols.append(f"({node.label}")
    return symbols[1:-1]  # without TOP


def split_symbol(token: str) -> tuple[str, str]:
    """Return the bracket of a symbol ("" for a word) and its name ("" if it is not a symbol)."""
    match = SYMBOL.fullmatch(token)
    if match is None or FAIRSEQ_SYMBOL.fullmatch(token):
        return "", ""
    return match[1], match[2]


@lru_cache  # a treebank has about 50 tags
def require_tag(tag: str) -> None:
    """Raise ValueError for a tag that looks like one of fairseq's own symbols."""
    if FAIRSEQ_SYMBOL.fullmatch(tag):
        raise ValueError(f"a tag must not look like fairseq's own symbols, got {tag}")


def require_word(word: str) -> None:
    """Raise ValueError for a word that cannot be part of a tree."""
    if not WORD.fullmatch(word):
        raise ValueError(f"a word must have no white space, '(' or ')' in it, got {word!r}")


def source_text(words: Sequence[str]) -> str:
    """Return a sentence for a word-piece model, with one space between words; "_" replaces
    "\u2581", which begins a word in pieces, and white space inside a word, where fairseq would
    split it. Raises ValueError as `require_word` does."""
    for word in words:
        require_word(word)
    return " ".join(NOT_IN_SOURCE.sub("_", word) for word in words)


# Normalization


# A label that begins with one of these characters (-LRB-) stays whole; any other is cut before the
# first of them.
CATEGORY = re.compile(r"[^-=|]+")


def normalized_trees(path: str | Path, collapse_unary: bool = False) -> Iterator[Constituent]:
    """Yield the trees of a file in the form used for training; raises OSError and ValueError like
    `read_trees`, and ValueError with the number of a tree that `normalize` refuses."""
    for number, tree in enumerate(read_trees(path), start=1):
        try:
            yield normalize(tree, collapse_unary)
        except ValueError as error:
            raise ValueError(f"{source_name(path)}: tree {number:,}: {error}") from error


def normalized_lines(
    path: str | Path, collapse_unary: bool, refused: list[str]
) -> Iterator[Constituent]:
    """Yield the normalized trees of a file with one tree per line, as parsers write it, and append
    to `refused` why a line is none; raises OSError, and ValueError if the text is not UTF-8."""
    name = source_name(path)
    for number, line in enumerate(stream_lines(path), start=1):
        try:
            trees = [normalize(tree, collapse_unary) for tree in parse_trees([line], name)]
            if not trees:
                raise ValueError("the line is empty")
        except ValueError as error:  # its line number is 1, because only this line was parsed
            refused.append(f"{name}:{number}: {str(error).removeprefix(f'{name}:1: ')}")
        else:
            yield from trees


def normalize(tree: Constituent, collapse_unary: bool = False) -> Constituent:
    """Return a tree with one root, TOP, in place of one or several wrappers, without function tags,
    traces and constituents that hold only traces and, with `collapse_unary`, without an X whose
    only child is an X. Raises ValueError if no word is left, if the tree is deeper than MAX_DEPTH
    brackets, and like `require_tag` and `reader_of`."""
    top = Constituent(ROOT_LABEL, _unwrapped(tree))
    kept = _clean(top, reader_of(tree), collapse_unary, MAX_DEPTH)
    if kept is None:
        rule = "a tree must have a word besides traces, has none"
        raise ValueError(f"{rule}: {write_tree(tree):.60}")
    return kept


def _unwrapped(tree: Constituent) -> tuple[Constituent | Word, ...]:
    """Return the nodes below the wrappers at the top of a tree, from left to right."""
    nodes: list[Constituent | Word] = []
    pending: list[Constituent | Word] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, Constituent) and category(node.label) in WRAPPERS:
            pending.extend(reversed(node.children))
        else:
            nodes.append(node)
    return tuple(nodes)


def _clean(
    node: Constituent, read: Callable[[Word], Word | None], collapse_unary: bool, room: int
) -> Constituent | None:
    """Return a normalized constituent with at most `room` nested brackets, None if it is empty."""
    if room < 2:
        raise ValueError(f"expected at most {MAX_DEPTH} brackets inside each other, got more")
    children: list[Constituent | Word] = []
    for child in node.children:
        if isinstance(child, Word):
            if (word := read(child)) is not None:
                require_tag(word.tag)
                children.append(word)
        elif (kept := _clean(child, read, collapse_unary, room - 1)) is not None:
            children.append(kept)
    if not children:
        return None
    label = category(node.label)
    if collapse_unary and len(children) == 1:
        only = children[0]
        if isinstance(only, Constituent) and only.label == label:
            return only
    return Constituent(label, tuple(children))


def category(label: str) -> str:
    """Return the label of a constituent without function tags, indices and alternatives."""
    label = without_features(label)
    match = CATEGORY.match(label)
    return match[0] if match else label

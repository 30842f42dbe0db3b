"""Constituency trees in Penn Treebank brackets, as plain immutable data."""

from __future__ import annotations

from typing import NamedTuple


class Word(NamedTuple):
    """A leaf: a part-of-speech tag over a word, escaped as in the treebank (-LRB-, 1\\/2)."""

    tag: str
    form: str


class Constituent(NamedTuple):
    """A labelled bracket over at least one child."""

    label: str
    children: tuple[Constituent | Word, ...]


# The root of every normalized tree; EVALB does not count it.
ROOT_LABEL = "TOP"
# Reading refuses deeper brackets, and repairing drops them. Treebanks stay below 100.
MAX_DEPTH = 400


def words_of(tree: Constituent) -> list[Word]:
    """Return the leaves of a tree from left to right."""
    found: list[Word] = []
    pending: list[Constituent | Word] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, Word):
            found.append(node)
        else:
            pending.extend(reversed(node.children))
    return found


def write_tree(tree: Constituent) -> str:
    """Return a tree in brackets on one line: (TOP (NP (DT the) (NN board)))."""
    parts: list[str] = []
    pending: list[Constituent | Word | str] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, str):
            parts.append(node)
        elif isinstance(node, Word):
            parts.append(f" ({node.tag} {node.form})")
        else:
            parts.append(f" ({node.label}")
            pending.append(")")
            pending.extend(reversed(node.children))
    return "".join(parts).lstrip(" ")

"""Bring treebank trees into the form that section 6.3 predicts and EVALB scores.

Function tags go (NP-SBJ-1 and NP=2 become NP), and so do traces. A label of two alternatives,
which a few treebank brackets have, keeps the first: ADVP|PRT becomes ADVP and PRT|ADVP becomes PRT,
which scoring takes for the same. PRT stays PRT. The tags of words stay as they are.
"""

from __future__ import annotations

import re

from fairseq_aiayn.treebank.linearization import require_tag
from fairseq_aiayn.treebank.trees import MAX_DEPTH, ROOT_LABEL, Constituent, Word, write_tree

TRACE = "-NONE-"
WRAPPERS = frozenset(("", "ROOT", "TOP", "S1"))  # what treebanks and parsers put above a sentence
# What begins with "-" (-LRB-) is one name; in any other label what follows the first of these goes.
CATEGORY = re.compile(r"[^-=|]+")
SHOWN = 60  # characters of a tree that a message shows


def normalize(tree: Constituent, collapse_unary: bool = False) -> Constituent:
    """Return a tree with one root, TOP, without function tags, traces and what traces emptied.

    TOP takes the place of the wrappers "", ROOT, TOP and S1, also of several; its children may be
    words, and one or many. `collapse_unary` makes one X of an X over a single X. Raises ValueError
    if no word is left, if the tree is deeper than MAX_DEPTH brackets, or as `require_tag`.
    """
    kept = _clean(Constituent(ROOT_LABEL, _unwrapped(tree)), collapse_unary, MAX_DEPTH)
    if kept is None:
        raise ValueError(f"a tree must have a word besides traces, has none: {_shown(tree)}")
    return kept


def _unwrapped(tree: Constituent) -> tuple[Constituent | Word, ...]:
    """Return what stands below the wrappers on top of a tree, from left to right."""
    found: list[Constituent | Word] = []
    pending: list[Constituent | Word] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, Constituent) and category(node.label) in WRAPPERS:
            pending.extend(reversed(node.children))
        else:
            found.append(node)
    return tuple(found)


def _clean(node: Constituent, collapse_unary: bool, room: int) -> Constituent | None:
    """Return what is left of a constituent that may have so many brackets inside each other."""
    if room < 2:
        rule = f"at most {MAX_DEPTH} brackets inside each other, TOP and the word's too"
        raise ValueError(f"a tree must have {rule}")
    children: list[Constituent | Word] = []
    for child in node.children:
        if isinstance(child, Word):
            if child.tag != TRACE:
                require_tag(child.tag)
                children.append(child)
        elif (kept := _clean(child, collapse_unary, room - 1)) is not None:
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
    """Return a constituent's label without function tags, indices and second alternatives."""
    found = CATEGORY.match(label)
    return found[0] if found else label


def _shown(tree: Constituent) -> str:
    text = write_tree(tree)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."

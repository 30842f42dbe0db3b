"""Convert treebank trees to the form that the parser of section 6.3 predicts and EVALB scores.

Function tags are removed (NP-SBJ-1 and NP=2 become NP), and so are traces. A few treebank labels
have two alternatives, and keep the first: ADVP|PRT becomes ADVP and PRT|ADVP becomes PRT, which
count as equal in scoring. PRT stays PRT. The tags of words stay unchanged.
"""

from __future__ import annotations

import re

from fairseq_aiayn.treebank.linearization import require_tag
from fairseq_aiayn.treebank.trees import MAX_DEPTH, ROOT_LABEL, Constituent, Word, write_tree

TRACE = "-NONE-"
WRAPPERS = frozenset(("", "ROOT", "TOP", "S1"))  # labels above a sentence in treebanks and parsers
# A label that begins with one of these characters (-LRB-) stays whole; any other is cut before the
# first of them.
CATEGORY = re.compile(r"[^-=|]+")
SHOWN = 60  # characters of a tree that a message shows


def normalize(tree: Constituent, collapse_unary: bool = False) -> Constituent:
    """Return a tree with one root, TOP, and without function tags, traces and constituents that
    hold only traces.

    TOP replaces one or several of the wrappers "", ROOT, TOP and S1; it may have one child or many,
    and they may be words. `collapse_unary` replaces an X whose only child is an X by that child.
    Raises ValueError if no word is left, if the tree is deeper than MAX_DEPTH brackets, and like
    `require_tag`.
    """
    kept = _clean(Constituent(ROOT_LABEL, _unwrapped(tree)), collapse_unary, MAX_DEPTH)
    if kept is None:
        raise ValueError(f"a tree must have a word besides traces, has none: {_shown(tree)}")
    return kept


def _unwrapped(tree: Constituent) -> tuple[Constituent | Word, ...]:
    """Return the nodes below the wrappers at the top of a tree, from left to right."""
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
    """Return a normalized constituent with at most `room` nested brackets, None if it is empty."""
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
    """Return the label of a constituent without function tags, indices and alternatives."""
    found = CATEGORY.match(label)
    return found[0] if found else label


def _shown(tree: Constituent) -> str:
    text = write_tree(tree)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."

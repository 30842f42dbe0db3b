"""Trees as nltk has them, to draw them; importing nltk takes seconds, so only who draws does it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairseq_aiayn.treebank.trees import Constituent, Word

if TYPE_CHECKING:
    import nltk


def as_nltk(tree: Constituent) -> nltk.Tree:
    """Return a tree as nltk has it: the tag of a word is a node over its form."""
    from nltk import Tree

    root = Tree(tree.label, [])
    pending = [(root, tree)]
    while pending:
        parent, node = pending.pop()
        for child in node.children:
            if isinstance(child, Word):
                parent.append(Tree(child.tag, [child.form]))
            else:
                parent.append(Tree(child.label, []))
                pending.append((parent[-1], child))
    return root


def pretty(tree: Constituent) -> str:
    """Return a tree drawn in characters, on several lines without a line end at the last."""
    from nltk.tree.prettyprinter import TreePrettyPrinter

    return TreePrettyPrinter(as_nltk(tree)).text().rstrip("\n")

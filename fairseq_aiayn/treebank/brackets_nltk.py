"""Draw trees with nltk, which is imported only when needed, because the import takes seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairseq_aiayn.treebank.trees import Constituent, Word

if TYPE_CHECKING:
    import nltk


def as_nltk(tree: Constituent) -> nltk.Tree:
    """Convert a tree to nltk's form, where the tag of a word is a node above its form."""
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
    """Return a drawing of a tree in characters, on several lines; the last has no line end."""
    from nltk.tree.prettyprinter import TreePrettyPrinter

    return TreePrettyPrinter(as_nltk(tree)).text().rstrip("\n")

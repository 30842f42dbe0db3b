"""Section 6.3: a tree as a sequence, and what becomes of a sequence that is no tree."""

from __future__ import annotations

from fairseq_aiayn.treebank.linearization import linearize, normalize
from fairseq_aiayn.treebank.repair import repair
from fairseq_aiayn.treebank.trees import parse_trees, words_of, write_tree

TREE = (
    "((S (NP-SBJ (DT The) (NN model)) (VP (VBZ attends) (PP-CLR (TO to) "
    "(NP (DT every) (NN word)))) (. .)))"
)
# The same without (VP, with one word too few and a bracket that closes nothing
BROKEN = "(S (NP DT NN )NP VBZ (PP TO (NP DT NN )NP )PP )VP )S"


def sequences() -> dict[str, str]:
    """Return the tree, its sequence with tags and with XX, and a broken sequence repaired."""
    (tree,) = parse_trees([TREE], "tour")
    tree = normalize(tree)
    words = [word.form for word in words_of(tree)]
    repaired = repair(BROKEN.split(), words)
    return {
        "tree": TREE,
        "with tags": " ".join(linearize(tree, "pos")),
        "with XX": " ".join(linearize(tree, "XX")),
        "broken": BROKEN,
        "repaired": write_tree(repaired.tree),
        "repairs": ", ".join(f"{name}: {count}" for name, count in repaired.repairs.items()),
    }

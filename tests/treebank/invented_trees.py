"""Random trees for the properties of fairseq_aiayn.treebank, the same in every run."""

from hypothesis import strategies as st

from fairseq_aiayn.treebank.trees import ROOT_LABEL, Constituent, Word

WHITE_SPACE = " \t\r\n\f\v"
# What str.split, str.splitlines, \s or a piece model take for more than a character of a word
ODD_CHARACTERS = "\u00a0\u2028\u0085\u3000\u2581\ufeff\x1c"

labels = st.sampled_from(["S", "NP", "VP", "PRT", "-LRB-", "TOP"])
tags = st.sampled_from(["NN", "DT", ".", ",", "``", "-LRB-", "PRP$"])
forms = st.sampled_from(["the", "-LRB-", "1\\/2", ",", "''", "<unk>", "XX"]) | st.text(
    st.characters(exclude_characters="()" + WHITE_SPACE, exclude_categories=["Cs"])
    | st.sampled_from(ODD_CHARACTERS),
    min_size=1,
    max_size=3,
)


def trees(
    labels: st.SearchStrategy[str], tags: st.SearchStrategy[str], root: str = ROOT_LABEL
) -> st.SearchStrategy[Constituent]:
    """Trees of these labels and tags; words may be directly under the root."""
    nodes = st.recursive(
        st.builds(Word, tags, forms),
        lambda inner: st.builds(Constituent, labels, children(inner)),
        max_leaves=12,
    )
    return st.builds(Constituent, st.just(root), children(nodes))


def children(nodes: st.SearchStrategy) -> st.SearchStrategy[tuple]:
    """From one to three nodes."""
    return st.lists(nodes, min_size=1, max_size=3).map(tuple)


normalized = trees(labels.filter(lambda label: label != ROOT_LABEL), tags)


def chain(depth: int, label: str = "NP") -> Constituent:
    """A word inside so many constituents, one in the other."""
    tree = Constituent(label, (Word("NN", "board"),))
    for _ in range(depth - 1):
        tree = Constituent(label, (tree,))
    return tree

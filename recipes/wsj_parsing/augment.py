"""Print further training trees made of a treebank's trees: their phrases, and pairs of sentences.

A parser learns to keep its place in the sentence from phrases, which are short, and from pairs, in
which a sentence does not begin at the first word. The paper has nothing of this kind.

    python augment.py trees/train.trees > trees/augmented.ptb
"""

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

from fairseq_aiayn.console import script
from fairseq_aiayn.treebank.trees import (
    ROOT_LABEL,
    Constituent,
    Word,
    read_trees,
    words_of,
    write_tree,
)

PAIRS_PER_TREE = 3  # pairs that are drawn; those of more words than LONGEST_PAIR are left out
LONGEST_PAIR = 80


def phrases(tree: Constituent) -> Iterator[Constituent]:
    """Yield the constituents of at least two words below the whole sentence, each as a tree.

    Of several constituents over the same words, it is the outermost one.
    """
    above = [(tree, len(words_of(tree)))]
    while above:
        parent, words = above.pop()
        for child in parent.children:
            if isinstance(child, Word):
                continue
            length = len(words_of(child))
            above.append((child, length))
            if 2 <= length < words:
                yield Constituent(ROOT_LABEL, (child,))


def pairs(trees: Sequence[Constituent]) -> Iterator[Constituent]:
    """Yield trees of two sentences, one after the other, which are drawn independently.

    The same trees give the same pairs.
    """
    draw = random.Random(1)
    for _ in range(PAIRS_PER_TREE * len(trees)):
        first, second = draw.choice(trees), draw.choice(trees)
        both = Constituent(ROOT_LABEL, first.children + second.children)
        if len(words_of(both)) <= LONGEST_PAIR:
            yield both


def main() -> None:
    with script(__doc__) as parser:
        parser.add_argument("trees", type=Path, metavar="FILE", help="normalized trees")
        trees = list(read_trees(parser.parse_args().trees))
        different = dict.fromkeys(phrase for tree in trees for phrase in phrases(tree))
        for tree in (*different, *pairs(trees)):
            print(write_tree(tree))


if __name__ == "__main__":
    main()

"""Further training trees that are made of a treebank's trees."""

import augment

from fairseq_aiayn.treebank.trees import parse_trees, words_of, write_tree


def trees(text: str) -> list:
    return list(parse_trees([text], "test"))


def test_phrases_are_the_outermost_of_two_words_or_more():
    (tree,) = trees("(TOP (S (NP (NP (D a) (N b)) (PP (P c))) (VP (X (VP (V d) (N e))))))")
    made = {write_tree(phrase) for phrase in augment.phrases(tree)}
    assert made == {
        "(TOP (NP (NP (D a) (N b)) (PP (P c))))",
        "(TOP (NP (D a) (N b)))",
        "(TOP (VP (X (VP (V d) (N e)))))",
    }


def test_pairs_are_two_sentences_of_80_words_at_most_and_always_the_same():
    words = [
        " ".join(f"(N {letter}{k})" for k in range(size))
        for letter, size in zip("abc", (3, 41, 39))
    ]
    gold = trees(" ".join(f"(TOP (S {text}))" for text in words))
    pairs = list(augment.pairs(gold))
    assert [*map(write_tree, pairs)] == [*map(write_tree, augment.pairs(gold))]
    assert 0 < len(pairs) <= augment.PAIRS_PER_TREE * 3
    for pair in pairs:
        assert len(pair.children) == 2 and len(words_of(pair)) <= 80
        assert {child for child in pair.children} <= {tree.children[0] for tree in gold}

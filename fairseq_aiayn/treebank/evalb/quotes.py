"""EVALB's remedy for misread quotes, which give gold and prediction different numbers of words.

`'` is either a quotation mark, which does not count, or a possessive, which does. If only one side
gives it a deleted tag, the words of the two sides no longer pair up. QUOTE_LABEL lists the tags
that are confused in this way. A deleted quote whose counterpart counts is put back. COLLINS.prm
lists no such tags.
"""

from __future__ import annotations

from fairseq_aiayn.treebank.evalb.bracketing import Bracketing


def put_back_quotes(gold: Bracketing, predicted: Bracketing) -> None:
    """Put back, in place, each deleted quote that has a different tag on the other side and counts
    there.

    Two quotes are counterparts if equally many words precede them. The quotes after one that is put
    back move by one word, on that side only.
    """
    for number, quote in enumerate(predicted.quotes):
        place = quote.place  # its place before any counterpart moves it
        for other_number, other in enumerate(gold.quotes):
            if other.place != place or other.tag == quote.tag:
                continue
            if other.deleted and not quote.deleted:
                _put_back(gold, other_number)
            elif quote.deleted and not other.deleted:
                _put_back(predicted, number)


def _put_back(tree: Bracketing, number: int) -> None:
    quote = tree.quotes[number]
    tree.words.insert(quote.place, quote.word)
    tree.tags.insert(quote.place, quote.tag)
    for later in range(quote.constituents, len(tree.ends)):
        tree.starts[later] += 1
        tree.ends[later] += 1
    for outer in quote.around:
        tree.ends[outer] += 1
    for moved in tree.quotes[number:]:
        moved.place += 1

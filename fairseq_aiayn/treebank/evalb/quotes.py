"""EVALB's remedy where gold and prediction have different numbers of words: misread quotes.

`'` is a quotation mark, which does not count, or a possessive, which does. Where one side has
tagged it with a deleted tag and the other has not, their words no longer pair up. QUOTE_LABEL names
the tags between which that happens; a deleted quote whose counterpart counts is put back.
COLLINS.prm names none.
"""

from __future__ import annotations

from fairseq_aiayn.treebank.evalb.bracketing import Bracketing


def put_back_quotes(gold: Bracketing, predicted: Bracketing) -> None:
    """Put back, in place, each quote that counts on the other side with another tag.

    Counterparts are quotes with as many words before them; those behind one that is put back move
    by one word, each side for itself.
    """
    for number, quote in enumerate(predicted.quotes):
        place = quote.place  # where it was when its turn came, also once it is put back
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

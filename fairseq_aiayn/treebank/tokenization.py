"""Split a sentence into words as the Penn Treebank does."""

from __future__ import annotations

# The WSJ has ASCII only; its tokenizer tells an opening quote from a closing one by what is around
ASCII_QUOTES = str.maketrans("“”‘’", "\"\"''")


def penn_words(sentence: str) -> list[str]:
    """Return the words of one English sentence, without white space or round brackets in them.

    Contractions are split (ca n't), quotes become `` and '', brackets -LRB-, -RSB- and so on. Only
    the full stop at the end is a word of its own, so give one sentence at a time.
    """
    # nltk takes seconds to import, and who brings words of their own needs none of it
    from nltk.tokenize import TreebankWordTokenizer

    return TreebankWordTokenizer().tokenize(
        sentence.translate(ASCII_QUOTES), convert_parentheses=True
    )

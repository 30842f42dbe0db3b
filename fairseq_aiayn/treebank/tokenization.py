"""Split a sentence into words as the Penn Treebank does."""

from __future__ import annotations

# The WSJ is ASCII; its tokenizer tells opening from closing quotes by the surrounding text
ASCII_QUOTES = str.maketrans("“”‘’", "\"\"''")


def penn_words(sentence: str) -> list[str]:
    """Return the words of one English sentence, without white space or round brackets in them.

    Contractions are split (ca n't), quotes become `` and '', and brackets become -LRB-, -RSB- and
    so on. Only a full stop at the end becomes a separate word, so pass one sentence at a time.
    """
    # Importing nltk takes seconds, and users who bring tokenized text do not need it
    from nltk.tokenize import TreebankWordTokenizer

    return TreebankWordTokenizer().tokenize(
        sentence.translate(ASCII_QUOTES), convert_parentheses=True
    )

"""Moses' treatment of text, by sacremoses: punctuation normalised, then tokenised."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from functools import partial

from sacremoses import MosesPunctNormalizer, MosesTokenizer


def moses_tokenizer(language: str, normalize: bool) -> Callable[[str], str]:
    """Return a function that turns a line into tokens with a space between.

    It does what `sacremoses -l LANGUAGE tokenize -a` does (tokenizer.perl -a). With `normalize`,
    what normalize-punctuation.perl and remove-non-printing-char.perl do comes first, in the order
    in which the published recipes for WMT run the three.
    """
    tokenize = partial(
        MosesTokenizer(lang=language).tokenize, aggressive_dash_splits=True, return_str=True
    )
    if not normalize:
        return tokenize
    normalizer = MosesPunctNormalizer(lang=language)

    def normalize_and_tokenize(line: str) -> str:
        # Moses sees a line with its end, and has rules that need a character after a quotation.
        return tokenize(without_nonprinting(normalizer.normalize(f"{line}\n")))

    return normalize_and_tokenize


def without_nonprinting(line: str) -> str:
    """Put a space in the place of every character of the Unicode categories C*.

    These are control and format characters (also soft hyphens), and code points for private use
    or not assigned.
    """
    if line.isprintable():  # which is false for some white space, too
        return line
    return "".join(" " if unicodedata.category(c).startswith("C") else c for c in line)

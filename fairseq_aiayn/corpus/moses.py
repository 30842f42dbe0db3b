"""Moses' treatment of text, by sacremoses: lower-cased, punctuation normalised, tokenised."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from functools import partial, reduce

from sacremoses import MosesPunctNormalizer, MosesTokenizer


def moses_tokenizer(
    language: str, normalize: bool, lowercase: bool = False
) -> Callable[[str], str]:
    """Return a function that turns a line into tokens with a space between.

    It does what `sacremoses -l LANGUAGE tokenize -a` does (tokenizer.perl -a). With `normalize`,
    what normalize-punctuation.perl and remove-non-printing-char.perl do comes first, in the order
    in which the published recipes for WMT run the three. With `lowercase`, text is lower-cased
    before that, and hyphenated words stay whole (tokenizer.perl without -a), as in the files
    "lc.norm.tok" of Multi30k.
    """
    tokenize = partial(
        MosesTokenizer(lang=language).tokenize,
        aggressive_dash_splits=not lowercase,
        return_str=True,
    )
    steps: list[Callable[[str], str]] = [str.lower] if lowercase else []
    if normalize:
        normalizer = MosesPunctNormalizer(lang=language)
        # Moses sees a line with its end, and has rules that need a character after a quotation.
        steps += [lambda line: normalizer.normalize(f"{line}\n"), without_nonprinting]
    return lambda line: reduce(lambda text, step: step(text), [*steps, tokenize], line)


def without_nonprinting(line: str) -> str:
    """Put a space in the place of every character of the Unicode categories C*.

    These are control and format characters (also soft hyphens), and code points for private use
    or not assigned.
    """
    if line.isprintable():  # which is false for some white space, too
        return line
    return "".join(" " if unicodedata.category(c).startswith("C") else c for c in line)

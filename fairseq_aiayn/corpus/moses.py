"""Moses' preprocessing, by sacremoses: lower-casing, punctuation normalization, tokenization.

As a script it tokenizes text as cleaning.py does, but keeps every line, for held-out sets:

    python -m fairseq_aiayn.corpus.moses --language de --normalize < text > tokens
"""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Callable

from sacremoses import MosesPunctNormalizer, MosesTokenizer

from fairseq_aiayn.console import script
from fairseq_aiayn.files import STANDARD_INPUT, stream_lines

__all__ = ["moses_tokenizer"]


def moses_tokenizer(
    language: str, normalize: bool, lowercase: bool = False
) -> Callable[[str], str]:
    """Return a function that turns a line into tokens separated by spaces, as `sacremoses -l
    LANGUAGE tokenize -a` does; `normalize` runs normalize-punctuation.perl and
    remove-non-printing-char.perl first, as the recipes for WMT do; `lowercase` lower-cases before
    that and keeps hyphenated words whole, as in Multi30k's files "lc.norm.tok"."""
    tokenizer = MosesTokenizer(lang=language)
    normalizer = MosesPunctNormalizer(lang=language) if normalize else None

    def tokenize(line: str) -> str:
        if lowercase:
            line = line.lower()
        if normalizer:
            # As in Moses, with the line end: some rules need a character after a quotation mark.
            line = without_nonprinting(normalizer.normalize(f"{line}\n"))
        return tokenizer.tokenize(line, aggressive_dash_splits=not lowercase, return_str=True)

    return tokenize


def without_nonprinting(line: str) -> str:
    """Replace every character of the Unicode categories C*, such as a soft hyphen or an unassigned
    code point, by a space."""
    if line.isprintable():  # the common case; false for some white space, too
        return line
    return "".join(" " if unicodedata.category(c).startswith("C") else c for c in line)


def main() -> None:
    with script(__doc__) as parser:
        parser.add_argument("--language", required=True)
        parser.add_argument("--normalize", action="store_true")
        parser.add_argument("--lowercase", action="store_true")
        given = parser.parse_args()
        tokenize = moses_tokenizer(given.language, given.normalize, given.lowercase)
        for line in stream_lines(STANDARD_INPUT):
            sys.stdout.buffer.write(f"{tokenize(line)}\n".encode())


if __name__ == "__main__":
    main()

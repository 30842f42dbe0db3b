"""Quotes as ASCII, as the authors had them when they computed the English-German BLEU of Table 2.

The authors' script passes a translation through Moses's replace-unicode-punctuation, which knows
“, ” and ’ but not the low „. Their reference, newstest2014.tok.de, has no Unicode quote at all.
"""

from __future__ import annotations

from sacremoses import MosesPunctNormalizer

# What has Unicode's property Quotation_Mark and is not replaced by replace-unicode-punctuation.
OTHER_QUOTES = "„‟‘‚‛«»‹›⹂『』〝〞〟﹁﹂﹃﹄＂＇｢｣"
AS_ASCII = str.maketrans(dict.fromkeys(OTHER_QUOTES, '"'))

# Moses tokens escape what the replacements write; "&" is not among it, so nothing is escaped twice.
ESCAPED = str.maketrans(
    {'"': "&quot;", "'": "&apos;", "<": "&lt;", ">": "&gt;", "[": "&#91;", "]": "&#93;"}
)

MOSES = MosesPunctNormalizer()


def replace_in_hypothesis(sentence: str) -> str:
    """Replace what replace-unicode-punctuation does: “ and ” by ", ’ by ', … by three dots."""
    return MOSES.replace_unicode_punct(sentence)


def replace_in_reference(sentence: str) -> str:
    """Replace the same as in a hypothesis, and every other Unicode quote by an ASCII one."""
    return MOSES.replace_unicode_punct(sentence).translate(AS_ASCII)


def escape(tokens: str) -> str:
    """Write quotes and brackets in Moses tokens as Moses's tokenizer does: " as &quot;, for one."""
    return tokens.translate(ESCAPED)

"""A tree as a sequence (section 6.3, after Vinyals et al. 2015), and back.

    (TOP (S (NP (DT the) (NN board)) (VP (VBD met))))
    (S (NP DT NN )NP (VP VBD )VP )S

The order is depth first: "(LABEL" opens a constituent, ")LABEL" closes it, and each word is
replaced by its tag or by XX. The words themselves are only in the source. TOP is not written.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

from fairseq_aiayn.treebank.punctuation import punctuation_tag
from fairseq_aiayn.treebank.symbols import ATOM
from fairseq_aiayn.treebank.trees import MAX_DEPTH, ROOT_LABEL, Constituent, Word

Tags = Literal["pos", "XX"]
ANY_WORD = "XX"
# Nested constituents; TOP above them and the bracket of a word below them take two more levels.
MAX_OPEN = MAX_DEPTH - 2

# "(NP", ")NP" or, without a bracket, the symbol of a word
SYMBOL = re.compile(rf"([()]?)({ATOM}+)")
# fairseq's own symbols: <s>, <unk>, <<unk>>, madeupword0000
FAIRSEQ_SYMBOL = re.compile(r"<.*>|madeupword\d+")
WORD = re.compile(rf"{ATOM}+")
# A word-piece model marks the beginning of a word with U+2581, and fairseq splits at white space.
NOT_IN_SOURCE = re.compile(r"[\u2581\s]")


def linearize(tree: Constituent, tags: Tags) -> list[str]:
    """Return the symbols of a normalized tree, with the tag of each word ("pos") or with XX.

    The tags must pass `require_tag`; those of normalized trees do.
    """
    symbols: list[str] = []
    pending: list[Constituent | Word | str] = list(reversed(tree.children))
    while pending:
        node = pending.pop()
        if isinstance(node, str):
            symbols.append(node)
        elif isinstance(node, Word):
            symbols.append(node.tag if tags == "pos" else ANY_WORD)
        else:
            symbols.append(f"({node.label}")
            pending.append(f"){node.label}")
            pending.extend(reversed(node.children))
    return symbols


def delinearize(tokens: Sequence[str], words: Sequence[str]) -> Constituent:
    """Return the tree of a well-formed sequence over exactly `words`.

    This is the inverse of `linearize` except for XX: a word whose symbol is XX, even if that is its
    gold tag, gets the tag that `punctuation_tag` returns for it, or else XX. Raises ValueError with
    the place of the wrong symbol, counted from 1, and the rule that it breaks.
    """
    require_words(words)
    stack: list[tuple[str, list[Constituent | Word]]] = [(ROOT_LABEL, [])]
    used = 0
    for place, token in enumerate(tokens, start=1):
        bracket, name = split_symbol(token)
        if bracket == "(" and len(stack) <= MAX_OPEN:
            stack.append((name, []))
        elif bracket == ")" and stack[-1][0] == name and stack[-1][1] and len(stack) > 1:
            label, children = stack.pop()
            stack[-1][1].append(Constituent(label, tuple(children)))
        elif not bracket and name and used < len(words):
            stack[-1][1].append(word_of(name, words[used]))
            used += 1
        else:
            innermost = stack[-1] if len(stack) > 1 else None
            raise ValueError(f"symbol {place}: {_rule(token, innermost, len(words))}")
    if used < len(words):
        raise ValueError(f"must have a symbol for each of the {len(words)} words, has {used}")
    if len(stack) > 1:
        raise ValueError(f"({stack[-1][0]:.60} is not closed at the end")
    return Constituent(ROOT_LABEL, tuple(stack[0][1]))


def _rule(token: str, innermost: tuple[str, list] | None, words: int) -> str:
    """Return the rule that a symbol breaks; `innermost` is the constituent that contains it."""
    bracket, name = split_symbol(token)
    if not name:
        return f"must be a bracket with a label, a tag or XX, got {token!r:.60}"
    if not bracket:
        return f"must be for one of {words} words, {token:.60} comes after the last"
    if bracket == "(":
        return f"{token:.60} must not be inside {MAX_OPEN} constituents"
    if innermost is None:
        return f"{token:.60} closes what is not open"
    if innermost[0] != name:
        return f"must close {innermost[0]:.60} first, got {token:.60}"
    return f"{token:.60} closes a constituent without a word"


def split_symbol(token: str) -> tuple[str, str]:
    """Return the bracket of a symbol ("" for a word) and its name ("" if it is not a symbol)."""
    found = SYMBOL.fullmatch(token)
    if found is None or FAIRSEQ_SYMBOL.fullmatch(token):
        return "", ""
    return found[1], found[2]


def word_of(symbol: str, form: str) -> Word:
    """Return the word of a symbol."""
    tag = symbol if symbol != ANY_WORD else punctuation_tag(form) or ANY_WORD
    return Word(tag, form)


@lru_cache  # a treebank has about 50 tags
def require_tag(tag: str) -> None:
    """Raise ValueError for a tag that looks like one of fairseq's own symbols."""
    if FAIRSEQ_SYMBOL.fullmatch(tag):
        raise ValueError(f"a tag must not look like fairseq's own symbols, got {tag:.60}")


def require_words(words: Sequence[str]) -> None:
    """Raise ValueError if there is no word, or a word that cannot be part of a tree."""
    if not words:
        raise ValueError("a tree must have at least one word, got none")
    for word in words:
        if not WORD.fullmatch(word):
            raise ValueError(f"a word must have no white space, '(' or ')' in it, got {word!r:.60}")


def source_text(words: Sequence[str]) -> str:
    """Return a sentence for a word-piece model: one space between words, and none inside a word.

    "_" replaces "\u2581", which marks the beginning of a word in pieces, and any white space inside
    a word, because fairseq would split the word there.
    """
    return " ".join(NOT_IN_SOURCE.sub("_", word) for word in words)

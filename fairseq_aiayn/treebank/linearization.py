"""Trees as sequences (section 6.3, after Vinyals et al. 2015), and back.

    (TOP (S (NP (DT the) (NN board)) (VP (VBD met))))
    (S (NP DT NN )NP (VP VBD )VP )S

The order is depth first: "(LABEL" opens a constituent, ")LABEL" closes it, and each word is
replaced by its tag or by XX. The words themselves are only in the source. TOP is not written.

Treebank trees are normalized before. Function tags are removed (NP-SBJ-1 and NP=2 become NP), and
so are traces. A few treebank labels have two alternatives, and keep the first: ADVP|PRT becomes
ADVP and PRT|ADVP becomes PRT, which count as equal in scoring. PRT stays PRT. The tags of words
stay unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Literal

from fairseq_aiayn.text import source_name, stream_lines
from fairseq_aiayn.treebank.trees import (
    ATOM,
    ROOT_LABEL,
    Constituent,
    Word,
    parse_trees,
    read_trees,
    write_tree,
)

Tags = Literal["pos", "XX"]
ANY_WORD = "XX"
# Nested brackets of a normalized tree, whose functions call themselves for each: Python allows
# 1,000 calls inside each other. Treebanks stay below 100.
MAX_DEPTH = 400
MAX_OPEN = MAX_DEPTH - 2  # nested constituents, without TOP around them and the word's bracket

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
    the number of the wrong symbol, counted from 1; `repair` takes any sequence.
    """
    require_words(words)
    stack: list[tuple[str, list[Constituent | Word]]] = [(ROOT_LABEL, [])]
    used = 0
    for number, token in enumerate(tokens, start=1):
        bracket, name = split_symbol(token)
        label, children = stack[-1]
        if bracket == "(" and len(stack) <= MAX_OPEN:
            stack.append((name, []))
        elif bracket == ")" and name == label and children and len(stack) > 1:
            stack.pop()
            stack[-1][1].append(Constituent(label, tuple(children)))
        elif not bracket and name and used < len(words):
            children.append(word_of(name, words[used]))
            used += 1
        else:
            expected = f"expected a symbol that may follow word {used} of {len(words)}"
            raise ValueError(f"symbol {number}: {expected}, inside ({label}, got {token!r}")
    if used < len(words) or len(stack) > 1:
        expected = f"expected {len(words)} words and every bracket closed"
        raise ValueError(f"{expected}, got {used} words and {len(stack) - 1} open brackets")
    return Constituent(ROOT_LABEL, tuple(stack[0][1]))


def split_symbol(token: str) -> tuple[str, str]:
    """Return the bracket of a symbol ("" for a word) and its name ("" if it is not a symbol)."""
    match = SYMBOL.fullmatch(token)
    if match is None or FAIRSEQ_SYMBOL.fullmatch(token):
        return "", ""
    return match[1], match[2]


def word_of(symbol: str, form: str) -> Word:
    """Return the word of a symbol."""
    tag = symbol if symbol != ANY_WORD else punctuation_tag(form) or ANY_WORD
    return Word(tag, form)


@lru_cache  # a treebank has about 50 tags
def require_tag(tag: str) -> None:
    """Raise ValueError for a tag that looks like one of fairseq's own symbols."""
    if FAIRSEQ_SYMBOL.fullmatch(tag):
        raise ValueError(f"a tag must not look like fairseq's own symbols, got {tag}")


def require_words(words: Sequence[str]) -> None:
    """Raise ValueError if there is no word, or a word that cannot be part of a tree."""
    if not words:
        raise ValueError("a tree must have at least one word, got none")
    for word in words:
        if not WORD.fullmatch(word):
            raise ValueError(f"a word must have no white space, '(' or ')' in it, got {word!r}")


def source_text(words: Sequence[str]) -> str:
    """Return a sentence for a word-piece model: one space between words, and none inside a word.

    "_" replaces "\u2581", which marks the beginning of a word in pieces, and any white space inside
    a word, because fairseq would split the word there.
    """
    return " ".join(NOT_IN_SOURCE.sub("_", word) for word in words)


# Normalization


TRACE = "-NONE-"
WRAPPERS = frozenset(("", "ROOT", "TOP", "S1"))  # labels above a sentence in treebanks and parsers
# A label that begins with one of these characters (-LRB-) stays whole; any other is cut before the
# first of them.
CATEGORY = re.compile(r"[^-=|]+")


def normalized_trees(path: str | Path, collapse_unary: bool = False) -> Iterator[Constituent]:
    """Yield the trees of `read_trees` in the form used for training, one at a time.

    Raises OSError and ValueError like `read_trees`, and ValueError with the number of the tree if
    `normalize` refuses it.
    """
    for number, tree in enumerate(read_trees(path), start=1):
        try:
            yield normalize(tree, collapse_unary)
        except ValueError as error:
            raise ValueError(f"{source_name(path)}: tree {number:,}: {error}") from error


def normalized_lines(
    path: str | Path, collapse_unary: bool, refused: list[str]
) -> Iterator[Constituent]:
    """Yield the normalized trees of a file with one tree per line, as parsers write it.

    A line that is not a tree is skipped, and the reason is appended to `refused`. Raises OSError,
    and ValueError if the text is not UTF-8.
    """
    name = source_name(path)
    for number, line in enumerate(stream_lines(path), start=1):
        try:
            trees = [normalize(tree, collapse_unary) for tree in parse_trees([line], name)]
            if not trees:
                raise ValueError("the line is empty")
        except ValueError as error:  # its line number is 1, because only this line was parsed
            refused.append(f"{name}:{number}: {str(error).removeprefix(f'{name}:1: ')}")
        else:
            yield from trees


def normalize(tree: Constituent, collapse_unary: bool = False) -> Constituent:
    """Return a tree with one root, TOP, and without function tags, traces and constituents that
    hold only traces.

    TOP replaces one or several of the wrappers "", ROOT, TOP and S1; it may have one child or many,
    and they may be words. `collapse_unary` replaces an X whose only child is an X by that child.
    Raises ValueError if no word is left, if the tree is deeper than MAX_DEPTH brackets, and like
    `require_tag`.
    """
    kept = _clean(Constituent(ROOT_LABEL, _unwrapped(tree)), collapse_unary, MAX_DEPTH)
    if kept is None:
        rule = "a tree must have a word besides traces, has none"
        raise ValueError(f"{rule}: {write_tree(tree):.60}")
    return kept


def _unwrapped(tree: Constituent) -> tuple[Constituent | Word, ...]:
    """Return the nodes below the wrappers at the top of a tree, from left to right."""
    nodes: list[Constituent | Word] = []
    pending: list[Constituent | Word] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, Constituent) and category(node.label) in WRAPPERS:
            pending.extend(reversed(node.children))
        else:
            nodes.append(node)
    return tuple(nodes)


def _clean(node: Constituent, collapse_unary: bool, room: int) -> Constituent | None:
    """Return a normalized constituent with at most `room` nested brackets, None if it is empty."""
    if room < 2:
        raise ValueError(f"expected at most {MAX_DEPTH} brackets inside each other, got more")
    children: list[Constituent | Word] = []
    for child in node.children:
        if isinstance(child, Word):
            if child.tag != TRACE:
                require_tag(child.tag)
                children.append(child)
        elif (kept := _clean(child, collapse_unary, room - 1)) is not None:
            children.append(kept)
    if not children:
        return None
    label = category(node.label)
    if collapse_unary and len(children) == 1:
        only = children[0]
        if isinstance(only, Constituent) and only.label == label:
            return only
    return Constituent(label, tuple(children))


def category(label: str) -> str:
    """Return the label of a constituent without function tags, indices and alternatives."""
    match = CATEGORY.match(label)
    return match[0] if match else label


# The tags of punctuation, by which EVALB leaves punctuation out of a predicted tree.
#
# EVALB deletes the words tagged , : `` '' and . from both trees. If different words are left in the
# two trees, the sentence is an error and does not count. So the most important thing is to delete a
# form exactly where the treebank's tag deletes it. Which of the five tags it gets matters only for
# tagging accuracy.
#
# These forms are doubtful. Their tags were counted in a part of the WSJ (3,396 sentences) and in
# all of GUM (13,263 sentences):
#
# "  opens and closes equally often; both of its tags are deleted
# '  has no tag here: it is a possessive six times in seven in the WSJ, and a quotation mark three
#    times in four in GUM. So one sentence in 380 of the WSJ and one in 240 of GUM is an error; with
#    the tag of a quotation mark it would be one in 60 and one in 290
# ’  has no tag here, because it is more often a possessive
# -  has no tag here: in GUM it joins the parts of a compound (HYPH) in 1,040 of 1,204 places, and
#    in the WSJ it hardly ever occurs by itself
# -- and the dashes – and — are ":", as always in the WSJ; GUM tags 62 of 982 as HYPH or SYM
# (  and the other brackets have no tag here: EVALB does not delete -LRB- and -RRB-
# %  has no tag here, nor have $ & # / and @: neither treebank ever deletes them


FORMS = {
    ",": (",",),
    ".": (".", "?", "!"),
    ":": (":", ";", "--", "–", "—", "––", "..", "...", "…", "[...]", "•"),
    "``": ("``", "`", "“", "‘"),
    "''": ("''", '"', "”"),
}
TAG_OF = {form: tag for tag, forms in FORMS.items() for form in forms}
# Treebanks delete these in some sentences and count them in others, so the model's tag decides.
EITHER = frozenset(("'", "’", "-", "--", "–", "—"))
NOT_OF_WORDS = frozenset(("-NONE-", "TOP"))  # of traces and the root: EVALB deletes these, too


def punctuation_tag(form: str) -> str | None:
    """Return the tag that makes EVALB delete a punctuation mark; None for any other word."""
    return TAG_OF.get(form)


def fitting_tag(tag: str, form: str) -> str:
    """Return the tag of a word, or a different tag if EVALB would count a punctuation mark or
    delete a word because of it.

    One tag too many or too few in a sequence shifts all tags that follow. If EVALB then deletes
    words that it keeps in the gold tree, or keeps words that it deletes there, the sentence is an
    error and its brackets do not count. In gold trees this function changes the tags of 5 of
    233,926 words in GUM and of 1 of 81,793 words in the part of the WSJ; no two of them are in the
    same sentence.
    """
    if form in EITHER:
        return ANY_WORD if tag in NOT_OF_WORDS else tag
    if form in TAG_OF:
        return tag if tag in FORMS else TAG_OF[form]
    return ANY_WORD if tag in FORMS or tag in NOT_OF_WORDS else tag

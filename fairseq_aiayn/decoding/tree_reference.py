"""Slow reference implementation of the tree constraint, which enumerates all forests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

Forest = tuple[str, ...]


def forests(
    words: int, max_length: int, labels: Sequence[str], symbols: Sequence[str], deepest: int
) -> Iterator[Forest]:
    """Yield every forest over `words` words with at most `max_length` tokens and at most `deepest`
    nested brackets; each word is written as one of `symbols`."""
    if words == 0:
        yield ()
    if words == 0 or max_length < words:
        return
    for first, inside in trees(words, max_length, labels, symbols, deepest):
        rest = forests(words - inside, max_length - len(first), labels, symbols, deepest)
        yield from (first + following for following in rest)


def trees(
    words: int, max_length: int, labels: Sequence[str], symbols: Sequence[str], deepest: int
) -> Iterator[tuple[Forest, int]]:
    """Yield every tree over 1 to `words` words with its number of words; a tree is a word, or a
    bracket around at least one tree."""
    yield from (((symbol,), 1) for symbol in symbols)
    if deepest == 0 or max_length < 3:
        return
    for inside in range(1, words + 1):
        for children in forests(inside, max_length - 2, labels, symbols, deepest - 1):
            for label in labels:
                yield (f"({label}", *children, f"){label}"), inside


def continuations(prefix: Forest, every: Sequence[Forest]) -> set[str]:
    """Return the tokens that may follow a prefix in these forests; "" stands for the end."""
    n = len(prefix)
    return {forest[n] if len(forest) > n else "" for forest in every if forest[:n] == prefix}

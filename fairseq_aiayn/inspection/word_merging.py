"""Merge subword pieces: attention between words instead of pieces."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import torch
from torch import Tensor

from fairseq_aiayn.inspection.attention_map import AttentionMap

GOES_ON = "@@"  # subword-nmt: ends every piece of a word but the last
BEGINS = "\u2581"  # sentencepiece: begins the first piece of a word
SPECIAL = frozenset({"<s>", "</s>", "<pad>", "<unk>"})  # each is a word

Span = tuple[int, int]


def merge_words(pieces: AttentionMap) -> AttentionMap:
    """Return the map of words: weights are summed over a word's keys and averaged over its queries.

    Rows still sum to 1. Pieces without marks of subword-nmt or sentencepiece are words already.
    """
    queries, keys = word_spans(pieces.queries), word_spans(pieces.keys)
    from_keys = _membership(keys, len(pieces.keys)).to(pieces.weights)  # [K, words]
    from_queries = _membership(queries, len(pieces.queries)).to(pieces.weights)
    means = (from_queries / from_queries.sum(dim=0)).T  # [words, Q]
    return replace(
        pieces,
        queries=tuple(word_text(pieces.queries[slice(*span)]) for span in queries),
        keys=tuple(word_text(pieces.keys[slice(*span)]) for span in keys),
        weights=means @ pieces.weights @ from_keys,
    )


def word_spans(pieces: tuple[str, ...]) -> list[Span]:
    """Return the start and end of each word among the pieces of a sentence."""
    marked = any(piece.startswith(BEGINS) for piece in pieces)
    starts = [i for i in range(len(pieces)) if _begins_word(pieces, i, marked)]
    return list(pairwise([*starts, len(pieces)]))


def _begins_word(pieces: tuple[str, ...], i: int, marked: bool) -> bool:
    if i == 0 or pieces[i] in SPECIAL or pieces[i - 1] in SPECIAL:
        return True
    return pieces[i].startswith(BEGINS) if marked else not pieces[i - 1].endswith(GOES_ON)


def word_text(pieces: tuple[str, ...]) -> str:
    """Return a word without the marks of its pieces; a word that is only a mark stays."""
    text = "".join(piece.removesuffix(GOES_ON) for piece in pieces).removeprefix(BEGINS)
    return text or "".join(pieces)


def _membership(spans: list[Span], pieces: int) -> Tensor:
    """Return a matrix [pieces, words] with 1 where the piece belongs to the word."""
    member = torch.zeros(pieces, len(spans))
    for word, (start, end) in enumerate(spans):
        member[start:end, word] = 1.0
    return member

"""Attention weights between the words of one sentence, or of a sentence and its translation, by
pieces and by whole words."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import torch
from torch import Tensor

GOES_ON = "@@"  # subword-nmt: ends every piece of a word but the last
BEGINS = "\u2581"  # sentencepiece: begins the first piece of a word
SPECIAL = frozenset({"<s>", "</s>", "<pad>", "<unk>"})  # each is a word


@dataclass(frozen=True)
class AttentionMap:
    """One kind of attention in all layers and heads of a model.

    kind is encoder (source to source), decoder (target to target) or cross (target to source).
    weights is [N, h, Q, K]; each row, the weights of one query, sums to 1. Raises ValueError if Q
    and K are not the numbers of queries and keys.
    """

    kind: str
    queries: tuple[str, ...]
    keys: tuple[str, ...]
    weights: Tensor

    def __post_init__(self) -> None:
        words = (len(self.queries), len(self.keys))
        if self.weights.dim() != 4 or self.weights.shape[2:] != words:
            raise ValueError(
                f"weights must be [N, h, {words[0]}, {words[1]}], got {list(self.weights.shape)}"
            )


@dataclass(frozen=True)
class Word:
    """A word of a sentence: its text without the marks of its pieces, and where these are."""

    text: str
    pieces: range


def words_of_pieces(pieces: tuple[str, ...]) -> list[Word]:
    """Return the words of a sentence; a word that is only a mark keeps it."""
    marked = any(piece.startswith(BEGINS) for piece in pieces)
    starts = [i for i in range(len(pieces)) if _begins_word(pieces, i, marked)]
    return [
        Word(_text(pieces[start:end]), range(start, end))
        for start, end in pairwise([*starts, len(pieces)])
    ]


def merge_words(pieces: AttentionMap) -> AttentionMap:
    """Return the map of words: weights are summed over a word's keys and averaged over its queries.

    Rows still sum to 1. Pieces without marks of subword-nmt or sentencepiece are words already.
    """
    queries, keys = words_of_pieces(pieces.queries), words_of_pieces(pieces.keys)
    from_keys = _membership(keys).to(pieces.weights)  # [K, words]
    from_queries = _membership(queries).to(pieces.weights)
    means = (from_queries / from_queries.sum(dim=0)).T  # [words, Q]
    return replace(
        pieces,
        queries=tuple(word.text for word in queries),
        keys=tuple(word.text for word in keys),
        weights=means @ pieces.weights @ from_keys,
    )


def _begins_word(pieces: tuple[str, ...], i: int, marked: bool) -> bool:
    if i == 0 or pieces[i] in SPECIAL or pieces[i - 1] in SPECIAL:
        return True
    return pieces[i].startswith(BEGINS) if marked else not pieces[i - 1].endswith(GOES_ON)


def _text(pieces: tuple[str, ...]) -> str:
    text = "".join(piece.removesuffix(GOES_ON) for piece in pieces).removeprefix(BEGINS)
    return text or "".join(pieces)


def _membership(words: list[Word]) -> Tensor:
    """Return a matrix [pieces, words] with 1 where the piece belongs to the word."""
    lengths = torch.tensor([len(word.pieces) for word in words], dtype=torch.long)
    return torch.eye(len(words)).repeat_interleave(lengths, dim=0)

"""The part of an attention map that a picture shows: a layer, some heads, all words or one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from fairseq_aiayn.inspection.attention_map import AttentionMap, words_of_pieces

LONGEST = 120  # words per side: more cannot be read in one picture


class UnknownWord(ValueError):
    """A word that is not among a map's queries."""


@dataclass(frozen=True)
class Selection:
    """One layer of a map; layer, heads and queries count from 0.

    If `isolated`, the queries are those of one word, otherwise all of the map.
    """

    map: AttentionMap
    layer: int
    heads: tuple[int, ...]
    queries: tuple[int, ...]
    isolated: bool

    def weights(self, head: int) -> Tensor:
        """Return a head's weights for the queries, from 0 to 1: [queries, K] float32."""
        rows = self.map.weights[self.layer, head][list(self.queries)]
        return rows.float().cpu().clamp(max=1.0)  # a sum may exceed 1 by a rounding error


def select(
    shown: AttentionMap, layer: int | None, heads: Sequence[int] | None, word: str | None
) -> Selection:
    """Select what to draw; layer and heads count from 1, as in the paper.

    The default layer is the second to last, as in Figures 3-5 (5 of 6), or the only one. By
    default, all heads and all queries are selected; with a word, the queries of its occurrences.
    Raises ValueError for a layer, head or word that the map does not have.
    """
    N, h, Q, _ = shown.weights.shape
    layer = max(1, N - 1) if layer is None else layer
    if not 1 <= layer <= N:
        raise ValueError(f"the layer must be 1 to {N}, got {layer}")
    heads = tuple(range(1, h + 1)) if heads is None else tuple(dict.fromkeys(heads))
    for head in heads:
        if not 1 <= head <= h:
            raise ValueError(f"a head must be 1 to {h}, got {head}")
    queries = tuple(range(Q)) if word is None else occurrences(word, shown.queries)
    return Selection(shown, layer - 1, tuple(n - 1 for n in heads), queries, word is not None)


def require_readable(shown: AttentionMap) -> None:
    """Raise ValueError if a map has more words than a picture can show."""
    most = max(shown.weights.shape[2:])
    if most > LONGEST:
        raise ValueError(f"a picture shows at most {LONGEST} words or pieces a side, got {most}")


def occurrences(word: str, pieces: tuple[str, ...]) -> tuple[int, ...]:
    """Return the indices of all pieces of a word, at each occurrence.

    Raises UnknownWord, with the words to choose from, if it does not occur.
    """
    words = words_of_pieces(pieces)
    found = [i for one in words if one.text == word for i in one.pieces]
    found = found or [i for i, piece in enumerate(pieces) if piece == word]
    if not found:
        choices = " ".join(dict.fromkeys(one.text for one in words))
        raise UnknownWord(f"{word!r} is none of the words to choose from: {choices}")
    return tuple(found)

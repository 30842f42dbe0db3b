"""What of an attention map a picture shows: a layer, some heads, all words or one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from fairseq_aiayn.inspection.attention_map import AttentionMap
from fairseq_aiayn.inspection.word_merging import word_spans, word_text

LONGEST = 120  # words a side: what can still be read in one picture


class UnknownWord(ValueError):
    """A word that is none of a map's queries."""


@dataclass(frozen=True)
class Selection:
    """One layer of a map; layer, heads and queries count from 0.

    `isolated` says that the queries are those of one word, otherwise they are all.
    """

    map: AttentionMap
    layer: int
    heads: tuple[int, ...]
    queries: tuple[int, ...]
    isolated: bool

    def weights(self, head: int) -> Tensor:
        """Those of a head of the layer, between 0 and 1: [queries, K] float32."""
        rows = self.map.weights[self.layer, head][list(self.queries)]
        return rows.float().cpu().clamp(max=1.0)  # a sum may be a rounding error above it


def select(
    shown: AttentionMap, layer: int | None, heads: Sequence[int] | None, word: str | None
) -> Selection:
    """Choose what to draw; layer and heads count from 1, as the paper's do.

    Without a layer the last but one, as in Figures 3-5 (5 of 6), the only one of a single one;
    without heads all; without a word all queries, otherwise those of each time that it occurs.
    Raises ValueError for what the map does not have.
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
    """Raise ValueError for more words than a picture can show."""
    most = max(shown.weights.shape[2:])
    if most > LONGEST:
        raise ValueError(f"a picture shows at most {LONGEST} words or pieces a side, got {most}")


def occurrences(word: str, pieces: tuple[str, ...]) -> tuple[int, ...]:
    """Where a word stands, each of its pieces; UnknownWord, with the words, where it does not."""
    spans = [(word_text(pieces[slice(*span)]), span) for span in word_spans(pieces)]
    found = [i for text, span in spans if text == word for i in range(*span)]
    found = found or [i for i, piece in enumerate(pieces) if piece == word]
    if not found:
        words = " ".join(dict.fromkeys(text for text, _ in spans))
        raise UnknownWord(f"{word!r} is none of the words to choose from: {words}")
    return tuple(found)

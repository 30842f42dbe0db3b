"""The attention weights softmax(QKᵀ/√d_k) (Equation 1) of every layer and head of a model, and the
words and heads among them that a picture or a page shows."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from fairseq_aiayn.corpus.pieces import BEGINS, GOES_ON
from fairseq_aiayn.nn.attention import MultiHeadAttention, attention_weights, legal_connections
from fairseq_aiayn.nn.transformer import DecoderLayer, EncoderLayer, Transformer

__all__ = [
    "AttentionMap",
    "all_attention_weights",
    "longest_word",
    "merge_words",
    "occurrences",
    "record_weights",
    "select",
    "weights_of_call",
]


def all_attention_weights(
    transformer: Transformer, source: Tensor, target: Tensor
) -> dict[str, Tensor]:
    """Run a model without dropout over a source [S] and a target [T], shifted right, and return
    what every head of every layer attends to: "encoder" [N, h, S, S], "decoder" [N, h, T, T] and
    "cross" [N, h, T, S], whose rows sum to 1 and are 0 at source padding and at later target
    positions."""
    kinds = attentions(transformer)
    return record_weights(transformer, kinds, weights_of_call, source[None], target[None])


def record_weights(
    model: nn.Module,
    kinds: Mapping[str, Sequence[nn.Module]],
    weigh: Callable[..., Tensor],
    *inputs: Tensor,
) -> dict[str, Tensor]:
    """Run a model over a batch of one and return the weights [N, h, Q, K] of each kind of attention
    modules; `weigh` computes them, [1, h, Q, K], from the inputs of a module's call."""
    weights: dict[nn.Module, Tensor] = {}

    def record(module: nn.Module, args: tuple, kwargs: dict) -> None:
        weights[module] = weigh(module, *args, **kwargs)[0]

    modules = [module for layers in kinds.values() for module in layers]
    hooks = [module.register_forward_pre_hook(record, with_kwargs=True) for module in modules]
    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            model(*inputs)
    finally:
        for hook in hooks:
            hook.remove()
        model.train(training)
    return {kind: torch.stack([weights[m] for m in layers]) for kind, layers in kinds.items()}


def attentions(transformer: Transformer) -> dict[str, list[MultiHeadAttention]]:
    """Return the attention modules of each kind, first layer first."""
    encoder = [cast(EncoderLayer, layer) for layer in transformer.encoder.layers]
    decoder = [cast(DecoderLayer, layer) for layer in transformer.decoder.layers]
    return {
        "encoder": [layer.self_attention for layer in encoder],
        "decoder": [layer.self_attention for layer in decoder],
        "cross": [layer.cross_attention for layer in decoder],
    }


def weights_of_call(module: MultiHeadAttention, *args: Any, **kwargs: Any) -> Tensor:
    """Return the weights [B, h, Q, K] of a call of the module, from its inputs."""
    given = inspect.signature(module.forward).bind(*args, **kwargs).arguments
    x = given["x"]
    Q, (K, _V) = module.queries(x), module.keys_values(given.get("memory", x))
    mask = legal_connections(Q, given.get("barred"), given.get("causal", False))
    return attention_weights(Q, K, mask)


VISIBLE = 1 / 255  # a weight below is an opacity that changes no pixel


class Kind(NamedTuple):
    """A kind of attention, and what its queries (left) and its keys (right) are."""

    title: str
    queries: str
    keys: str


KINDS = {
    "encoder": Kind("Encoder self-attention", "Source", "Source"),
    "decoder": Kind("Decoder self-attention", "Written", "Read"),
    "cross": Kind("Encoder-decoder attention", "Written", "Source"),
}


@dataclass(frozen=True)
class AttentionMap:
    """One of KINDS in all layers and heads of a model, for one sentence and its translation:
    weights [N, h, Q, K], whose rows, one for each of the Q queries, sum to 1."""

    kind: str
    queries: tuple[str, ...]
    keys: tuple[str, ...]
    weights: Tensor

    @property
    def usual_layer(self) -> int:
        """The last layer, from 1, or the second to last of self-attention, as in Figures 3-5."""
        N = len(self.weights)
        return N if self.kind == "cross" else max(1, N - 1)


SPECIAL_PIECES = frozenset({"<s>", "</s>", "<pad>", "<unk>"})  # each is a word


class ShownWord(NamedTuple):
    """A word of a sentence: its text without the marks of its pieces, and where these are."""

    text: str
    pieces: range


def words_of_pieces(pieces: tuple[str, ...]) -> list[ShownWord]:
    """Return the words of a sentence; a word that is only a mark keeps it."""
    marked = any(piece.startswith(BEGINS) for piece in pieces)
    starts = [i for i in range(len(pieces)) if _begins_word(pieces, i, marked)]
    return [
        ShownWord(_text(pieces[start:end]), range(start, end))
        for start, end in pairwise([*starts, len(pieces)])
    ]


def _begins_word(pieces: tuple[str, ...], i: int, marked: bool) -> bool:
    if i == 0 or pieces[i] in SPECIAL_PIECES or pieces[i - 1] in SPECIAL_PIECES:
        return True
    return pieces[i].startswith(BEGINS) if marked else not pieces[i - 1].endswith(GOES_ON)


def _text(pieces: tuple[str, ...]) -> str:
    text = "".join(piece.removesuffix(GOES_ON) for piece in pieces).removeprefix(BEGINS)
    return text or "".join(pieces)


def merge_words(pieces: AttentionMap) -> AttentionMap:
    """Return the map of words: weights are summed over a word's keys and averaged over its queries,
    so that rows still sum to 1; pieces without marks of their words are words already."""
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


def _membership(words: list[ShownWord]) -> Tensor:
    """Return a matrix [pieces, words] with 1 where the piece belongs to the word."""
    lengths = torch.tensor([len(word.pieces) for word in words], dtype=torch.long)
    return torch.eye(len(words)).repeat_interleave(lengths, dim=0)


class Selection(NamedTuple):
    """What is shown of a map: a layer, some heads and the queries of a word or of all words; all
    are counted from 0."""

    map: AttentionMap
    layer: int
    heads: tuple[int, ...]
    queries: tuple[int, ...]


def select(
    shown: AttentionMap, layer: int | None, heads: Sequence[int] | None, word: str | None
) -> Selection:
    """Select what to draw, with layer and heads from 1, as in the paper: by default the usual layer
    and all heads, and without a word all queries. Raises ValueError for a layer, head or word that
    the map does not have."""
    N, h = shown.weights.shape[:2]
    layer = shown.usual_layer if layer is None else layer
    heads = tuple(range(1, h + 1)) if heads is None else tuple(dict.fromkeys(heads))
    for name, numbers, count in (("the layer", (layer,), N), ("a head", heads, h)):
        for number in numbers:
            if not 1 <= number <= count:
                raise ValueError(f"{name} must be 1 to {count}, got {number}")
    queries = occurrences(word, shown)
    if not queries:
        choices = " ".join(dict.fromkeys(w.text for w in words_of_pieces(shown.queries)))
        raise ValueError(f"{word!r} is none of the words to choose from: {choices}")
    return Selection(shown, layer - 1, tuple(n - 1 for n in heads), queries)


def longest_word(shown: AttentionMap) -> str:
    """Return the longest word of the queries, a special piece only if there is nothing else."""
    words = (word.text for word in words_of_pieces(shown.queries))
    return max(words, key=lambda text: (text not in SPECIAL_PIECES, len(text)))


def occurrences(word: str | None, shown: AttentionMap) -> tuple[int, ...]:
    """Return the queries that are pieces of a word, or else that piece, at each occurrence; all
    queries without a word."""
    if word is None:
        return tuple(range(len(shown.queries)))
    words = words_of_pieces(shown.queries)
    of_words = tuple(i for other in words if other.text == word for i in other.pieces)
    return of_words or tuple(i for i, piece in enumerate(shown.queries) if piece == word)

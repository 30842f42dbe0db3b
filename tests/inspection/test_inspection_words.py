"""Pieces put together to words: whose weights are added, whose are averaged."""

from __future__ import annotations

import pytest
import torch

from fairseq_aiayn.attention_maps.weights import AttentionMap, merge_words

BYTE_PAIRS = ("snow@@", "plo@@", "ugh", "ing", "</s>")
WORD_PIECES = ("\u2581snow", "plough", "\u2581ing", "</s>")


def attention_map(queries: tuple[str, ...], keys: tuple[str, ...]) -> AttentionMap:
    """Random weights of two layers with three heads."""
    torch.manual_seed(0)
    weights = torch.randn(2, 3, len(queries), len(keys), dtype=torch.float64).softmax(dim=-1)
    return AttentionMap("cross", queries, keys, weights)


def test_weights_are_summed_over_keys_and_averaged_over_queries() -> None:
    """Breaks with sums or means on both sides; numbers by hand."""
    weights = torch.tensor([[[[0.5, 0.25, 0.25], [0.1, 0.2, 0.7], [0.0, 1.0, 0.0]]]])
    pieces = AttentionMap("encoder", ("a@@", "b", "c"), ("a@@", "b", "c"), weights)
    words = merge_words(pieces)
    assert (words.kind, words.queries, words.keys) == ("encoder", ("ab", "c"), ("ab", "c"))
    expected = torch.tensor([[[[0.525, 0.475], [1.0, 0.0]]]])
    torch.testing.assert_close(words.weights, expected)


@pytest.mark.parametrize("queries", [BYTE_PAIRS, WORD_PIECES])
@pytest.mark.parametrize("keys", [BYTE_PAIRS, WORD_PIECES])
def test_rows_still_sum_to_one_whatever_either_side_is_cut_by(queries, keys) -> None:
    words = merge_words(attention_map(queries, keys))
    assert words.queries == words.keys == ("snowplough", "ing", "</s>")
    torch.testing.assert_close(words.weights.sum(dim=-1), torch.ones(2, 3, 3, dtype=torch.float64))


def test_whole_words_stay_as_they_are() -> None:
    """Breaks if a sentence without marks becomes one word."""
    plain = attention_map(("a", "b", "</s>"), ("<s>", "a", "b"))
    merged = merge_words(plain)
    assert (merged.queries, merged.keys) == (plain.queries, plain.keys)
    torch.testing.assert_close(merged.weights, plain.weights)


@pytest.mark.parametrize(
    ("pieces", "words"),
    [
        (("<s>", "a@@", "b"), ("<s>", "ab")),
        (("a@@", "</s>"), ("a", "</s>")),  # a translation that ends within a word
        (("\u2581a", "<unk>", "b", "</s>"), ("a", "<unk>", "b", "</s>")),
        (("\u2581", "漢字", "\u2581a"), ("漢字", "a")),
        (("\u2581", "</s>"), ("\u2581", "</s>")),
        (("a", "\u2581b"), ("a", "b")),  # a model without a mark at the beginning
        (("@", "-@", "@@", "x"), ("@", "-@", "x")),
        ((), ()),
    ],
)
def test_marks_of_pieces_are_taken_off_and_symbols_stay_alone(pieces, words) -> None:
    assert merge_words(attention_map(pieces, ("k",))).queries == words

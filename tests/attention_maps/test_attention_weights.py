"""Attention weights are those that a running model uses; words are merged, heads selected."""

import pytest
import torch
from faults import fault_of
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from fairseq_aiayn.attention_maps.weights import (
    AttentionMap,
    all_attention_weights,
    attentions,
    merge_words,
    select,
    words_of_pieces,
)
from fairseq_aiayn.nn.attention import MultiHeadAttention
from fairseq_aiayn.nn.dimensions import Dimensions
from fairseq_aiayn.nn.transformer import Transformer, create_transformer

# With d_v of at least the 4 keys and d_model of at least 3 · 4, a layer's output has one cause only
DIMENSIONS = Dimensions(N=2, d_model=12, d_ff=16, h=3, d_k=5, d_v=4, P_drop=0.4)
PAD, V = 1, 20
SOURCE, TARGET = torch.tensor([7, 4, 9, 2]), torch.tensor([2, 5, 6])


@pytest.fixture
def model() -> Transformer:
    """In float64, with weights that make attention far from even."""
    torch.manual_seed(3)
    model = create_transformer(DIMENSIONS, V, V, PAD).double().eval()
    with torch.no_grad():
        for layers in attentions(model).values():
            for attention in layers:
                attention.W_QKV.weight *= 3
    return model


def attended(module: MultiHeadAttention, weights: Tensor, memory: Tensor) -> Tensor:
    """Concat(head_1, …, head_h)W^O of weights [h, Q, K]: [Q, d_model]."""
    values = memory @ module.W_QKV.weight[-module.projection_sizes[2] :].T
    heads = [w @ v for w, v in zip(weights, values.chunk(module.h, dim=1), strict=True)]
    return torch.cat(heads, dim=1) @ module.W_O.weight.T


@torch.no_grad()
def test_the_output_of_every_layer_is_that_of_its_weights(model: Transformer) -> None:
    """Breaks if queries and keys are swapped, or layers, heads or kinds change places."""
    found = all_attention_weights(model, SOURCE, TARGET)
    calls: dict[nn.Module, tuple[tuple, Tensor]] = {}
    for layers in attentions(model).values():
        for module in layers:
            module.register_forward_hook(
                lambda module, inputs, output: calls.update({module: (inputs, output[0])})
            )
    model(SOURCE[None], TARGET[None])
    for kind, (Q, K) in {"encoder": (4, 4), "decoder": (3, 3), "cross": (3, 4)}.items():
        assert found[kind].shape == (2, 3, Q, K)
        for n, layer in enumerate((model.encoder if kind == "encoder" else model.decoder).layers):
            module = layer.cross_attention if kind == "cross" else layer.self_attention
            inputs, output = calls[module]
            memory = inputs[kind == "cross"][0]
            torch.testing.assert_close(attended(module, found[kind][n], memory), output)


@pytest.mark.parametrize("real", [slice(0, 4), slice(2, 6)], ids=["right", "left"])
def test_rows_sum_to_one_and_what_is_illegal_gets_exactly_nothing(model: Transformer, real) -> None:
    """Breaks if a mask is left out: padding on either side, later target positions."""
    padded = torch.full((6,), PAD)
    padded[real] = SOURCE
    found = all_attention_weights(model, padded, TARGET)
    for weights in found.values():
        torch.testing.assert_close(weights.sum(dim=-1), torch.ones_like(weights[..., 0]))
    assert (found["encoder"][..., padded.eq(PAD)] == 0).all()
    assert (found["cross"][..., padded.eq(PAD)] == 0).all()
    assert (found["decoder"].triu(1) == 0).all()
    alone = all_attention_weights(model, SOURCE, TARGET)
    torch.testing.assert_close(found["encoder"][..., real, real], alone["encoder"])
    torch.testing.assert_close(found["cross"][..., real], alone["cross"])
    torch.testing.assert_close(found["decoder"], alone["decoder"])


def test_a_model_that_trains_is_left_as_it_was(model: Transformer) -> None:
    """Breaks if dropout is on meanwhile, or a hook or a gradient stays, also after an error."""
    expected = all_attention_weights(model, SOURCE, TARGET)
    found = all_attention_weights(model.train(), SOURCE, TARGET)
    for kind, weights in expected.items():
        torch.testing.assert_close(found[kind], weights, rtol=0, atol=0)
        assert not found[kind].requires_grad
    with pytest.raises(IndexError):
        all_attention_weights(model, SOURCE, torch.tensor([2, V]))
    assert all(module.training for module in model.modules())
    assert not any(module._forward_pre_hooks for module in model.modules())


def attention_map(queries: tuple[str, ...], keys: tuple[str, ...]) -> AttentionMap:
    """Random weights of six layers with three heads."""
    torch.manual_seed(0)
    weights = torch.randn(6, 3, len(queries), len(keys), dtype=torch.float64).softmax(dim=-1)
    return AttentionMap("cross", queries, keys, weights)


def test_weights_are_summed_over_keys_and_averaged_over_queries() -> None:
    """Breaks with sums or means on both sides; numbers by hand."""
    weights = torch.tensor([[[[0.5, 0.25, 0.25], [0.1, 0.2, 0.7], [0.0, 1.0, 0.0]]]])
    words = merge_words(AttentionMap("encoder", ("a@@", "b", "c"), ("a@@", "b", "c"), weights))
    assert (words.kind, words.queries, words.keys) == ("encoder", ("ab", "c"), ("ab", "c"))
    torch.testing.assert_close(words.weights, torch.tensor([[[[0.525, 0.475], [1.0, 0.0]]]]))


PIECES = st.lists(
    st.sampled_from(["a", "b@@", "@@", "@", "\u2581c", "\u2581", "<unk>", "</s>"]), min_size=1
)


@given(PIECES, PIECES)
def test_every_piece_is_of_one_word_and_rows_still_sum_to_one(queries, keys) -> None:
    words = words_of_pieces(tuple(queries))
    assert [i for word in words for i in word.pieces] == [*range(len(queries))]
    assert all(word.text for word in words)
    merged = merge_words(attention_map(tuple(queries), tuple(keys))).weights
    torch.testing.assert_close(merged.sum(dim=-1), torch.ones_like(merged[..., 0]))


@pytest.mark.parametrize(
    ("pieces", "words"),
    [
        (("snow@@", "plo@@", "ugh", "ing", "</s>"), ("snowplough", "ing", "</s>")),
        (("\u2581snow", "plough", "\u2581ing", "</s>"), ("snowplough", "ing", "</s>")),
        (("a", "b", "</s>"), ("a", "b", "</s>")),  # whole words
        (("<s>", "a@@", "b"), ("<s>", "ab")),
        (("a@@", "</s>"), ("a", "</s>")),  # a translation that ends within a word
        (("\u2581a", "<unk>", "b", "</s>"), ("a", "<unk>", "b", "</s>")),
        (("\u2581", "</s>"), ("\u2581", "</s>")),
        (("a", "\u2581b"), ("a", "b")),  # a model without a mark at the beginning
        (("@", "-@", "@@", "x"), ("@", "-@", "x")),
    ],
)
def test_marks_of_pieces_are_taken_off_and_symbols_stay_alone(pieces, words) -> None:
    assert merge_words(attention_map(pieces, ("k",))).queries == words


WORDS = ("the", "law", "with@@", "out", "the", "</s>")


def test_all_heads_and_queries_of_the_last_layer_but_one_are_shown_unless_chosen() -> None:
    """Figures 3 to 5: 5 of 6. A word is chosen each time it occurs, with all of its pieces."""
    shown = attention_map(WORDS, WORDS)
    chosen = select(shown, None, None, None)
    assert (chosen.layer, chosen.heads, chosen.queries) == (4, (0, 1, 2), (0, 1, 2, 3, 4, 5))
    assert select(shown, 6, [3, 1, 3], None).heads == (2, 0)
    assert select(shown, 6, [1], None).layer == 5
    single = AttentionMap("cross", WORDS, WORDS, shown.weights[:1])
    assert select(single, None, None, None).layer == 0
    for word, queries in {"the": (0, 4), "without": (2, 3), "with@@": (2,)}.items():
        assert select(shown, None, None, word).queries == queries


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        *(((0, None, None), "1 to 6, got 0"), ((7, None, None), "1 to 6, got 7")),
        *(((None, [1, 4], None), "1 to 3, got 4"), ((None, [0], None), "1 to 3, got 0")),
        ((None, None, "The"), "the words to choose from: the law without </s>"),
    ],
)
def test_what_a_map_does_not_have_is_refused(choice, message) -> None:
    assert message in fault_of(select, attention_map(WORDS, WORDS), *choice)

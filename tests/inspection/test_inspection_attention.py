"""Attention weights taken from a running model: they are Equation 1's, and the model does not
notice."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from fairseq_aiayn.attention_maps.weights import all_attention_weights, attentions
from fairseq_aiayn.nn.attention import MultiHeadAttention, RestrictedSelfAttention
from fairseq_aiayn.nn.layers import Dimensions, positions
from fairseq_aiayn.nn.transformer import Transformer, create_transformer

DIMENSIONS = Dimensions(N=2, d_model=12, d_ff=16, h=3, d_k=5, d_v=2, P_drop=0.4)
PAD, V = 1, 20
SOURCE, TARGET = torch.tensor([7, 4, 9, 2]), torch.tensor([2, 5, 6])


def make_model(dimensions: Dimensions) -> Transformer:
    """In float64, with weights that make attention far from even."""
    torch.manual_seed(3)
    model = create_transformer(dimensions, V, V, PAD).double().eval()
    with torch.no_grad():
        for layers in attentions(model).values():
            for attention in layers:
                attention.W_QKV.weight *= 3
    return model


@pytest.fixture
def model() -> Transformer:
    return make_model(DIMENSIONS)


def reference(module: MultiHeadAttention, x: Tensor, memory: Tensor, causal: bool) -> Tensor:
    """Equation 1 with loops over heads, queries and keys: [h, Q, K] of x [Q, d_model]."""
    size = module.projection_sizes[0] // module.h
    W_Q, W_K, _ = module.W_QKV.weight.split(module.projection_sizes)
    weights = torch.zeros(module.h, len(x), len(memory), dtype=x.dtype)
    reach = module.r if isinstance(module, RestrictedSelfAttention) else len(memory) + len(x)
    for head in range(module.h):
        rows = slice(head * size, (head + 1) * size)
        for i, query in enumerate(x):
            legal = [j for j in range(i + 1 if causal else len(memory)) if abs(i - j) <= reach]
            scores = [
                math.exp((W_Q[rows] @ query) @ (W_K[rows] @ memory[j]) / math.sqrt(size))
                for j in legal
            ]
            weights[head, i, legal] = torch.tensor(scores, dtype=x.dtype) / sum(scores)
    return weights


def attended(module: MultiHeadAttention, weights: Tensor, memory: Tensor) -> Tensor:
    """Concat(head_1, …, head_h)W^O of weights [h, Q, K]: [Q, d_model]."""
    values = memory @ module.W_QKV.weight[-module.projection_sizes[2] :].T
    heads = [w @ v for w, v in zip(weights, values.chunk(module.h, dim=1), strict=True)]
    return torch.cat(heads, dim=1) @ module.W_O.weight.T


@torch.no_grad()
def expected_weights(model: Transformer, source: Tensor, target: Tensor) -> dict[str, list[Tensor]]:
    """The weights of every layer by a forward pass whose attentions are `reference`."""
    found: dict[str, list[Tensor]] = {"encoder": [], "decoder": [], "cross": []}

    def sublayer(kind: str, module: MultiHeadAttention, x: Tensor, memory: Tensor) -> Tensor:
        found[kind].append(reference(module, x, memory, causal=kind == "decoder"))
        return attended(module, found[kind][-1], memory)

    pos = positions(source[None], PAD)
    x = (model.encoder.embedding(source) + model.encoder.position(pos, len(source)))[0]
    for layer in model.encoder.layers:
        x = layer.self_attention_norm(x, sublayer("encoder", layer.self_attention, x, x))
        x = layer.feed_forward_norm(x, layer.feed_forward(x))
    pos = torch.arange(len(target))
    y = model.decoder.embedding(target) + model.decoder.position(pos, len(target))
    for layer in model.decoder.layers:
        y = layer.self_attention_norm(y, sublayer("decoder", layer.self_attention, y, y))
        y = layer.cross_attention_norm(y, sublayer("cross", layer.cross_attention, y, x))
        y = layer.feed_forward_norm(y, layer.feed_forward(y))
    return found


def hooks(model: nn.Module) -> int:
    return sum(len(module._forward_pre_hooks) for module in model.modules())


def test_weights_are_those_of_the_equation_in_every_layer_and_head(model: Transformer) -> None:
    """Breaks if queries and keys are swapped, or layers, heads or kinds change places."""
    expected = expected_weights(model, SOURCE, TARGET)
    found = all_attention_weights(model, SOURCE, TARGET)
    assert {kind: list(w.shape) for kind, w in found.items()} == {
        "encoder": [2, 3, 4, 4],
        "decoder": [2, 3, 3, 3],
        "cross": [2, 3, 3, 4],
    }
    for kind, layers in expected.items():
        torch.testing.assert_close(found[kind], torch.stack(layers), rtol=1e-9, atol=1e-12)


def test_with_a_window_nothing_beyond_it_is_attended_to() -> None:
    """Breaks if the weights are those of the whole sentence, which the model does not use."""
    model = make_model(replace(DIMENSIONS, attention_window=1))
    expected = expected_weights(model, SOURCE, TARGET)
    found = all_attention_weights(model, SOURCE, TARGET)
    assert (found["encoder"][..., 0, 2:] == 0).all() and (found["decoder"][..., 2, 0] == 0).all()
    for kind, layers in expected.items():
        torch.testing.assert_close(found[kind], torch.stack(layers), rtol=1e-9, atol=1e-12)
    padded = all_attention_weights(model, torch.tensor([[7, 4, 9, 2, PAD, PAD]]), TARGET[None])
    torch.testing.assert_close(padded["encoder"][:, 0, :, :4, :4], found["encoder"])


def test_rows_sum_to_one_and_what_is_illegal_gets_exactly_nothing(model: Transformer) -> None:
    """Breaks if a mask is left out: padding on either side, later target positions."""
    sources = torch.tensor([[PAD, PAD, 7, 4, 9, 2], [5, 6, 7, 8, 9, 2], [7, 4, 9, 2, PAD, PAD]])
    targets = torch.tensor([[2, 5, 6, PAD], [2, 8, 9, 10], [2, 5, 6, PAD]])
    found = all_attention_weights(model, sources, targets)
    for weights in found.values():
        torch.testing.assert_close(weights.sum(dim=-1), torch.ones_like(weights[..., 0]))
    padding = sources.eq(PAD)
    for kind in ("encoder", "cross"):
        per_key = found[kind].permute(1, 4, 0, 2, 3)  # [B, K, ...]
        assert (per_key[padding] == 0).all() and (per_key[~padding].amax(dim=(1, 2, 3)) > 0).all()
    assert (found["decoder"].triu(1) == 0).all()
    alone = all_attention_weights(model, SOURCE, TARGET)
    for row, real in ((0, slice(2, 6)), (2, slice(0, 4))):
        torch.testing.assert_close(found["encoder"][:, row, :, real, real], alone["encoder"])
        torch.testing.assert_close(found["cross"][:, row, :, :3, real], alone["cross"])
        torch.testing.assert_close(found["decoder"][:, row, :, :3, :3], alone["decoder"])


def test_with_the_values_they_give_what_the_model_goes_on_with(model: Transformer) -> None:
    """Breaks if the weights are of other inputs than those of the real forward pass."""
    found = all_attention_weights(model, SOURCE, TARGET)
    calls: dict[nn.Module, tuple[Tensor, Tensor]] = {}
    for layers in attentions(model).values():
        for module in layers:
            module.register_forward_hook(
                lambda module, inputs, output: calls.update({module: (inputs[1], output)})
            )
    model(SOURCE[None], TARGET[None])
    for kind, layers in attentions(model).items():
        for n, module in enumerate(layers):
            memory, output = calls[module]
            torch.testing.assert_close(attended(module, found[kind][n], memory[0]), output[0])


def test_a_model_that_trains_is_left_as_it_was(model: Transformer) -> None:
    """Breaks if dropout is on meanwhile, a hook or a gradient stays, or modes are lost."""
    expected = all_attention_weights(model, SOURCE, TARGET)
    logits = model(SOURCE[None], TARGET[None])
    model.train()
    model.encoder.layers[1].eval()  # as a frozen layer is
    modes = [module.training for module in model.modules()]
    found = all_attention_weights(model, SOURCE, TARGET)
    for kind, weights in expected.items():
        torch.testing.assert_close(found[kind], weights, rtol=0, atol=0)
        assert not found[kind].requires_grad
    assert [module.training for module in model.modules()] == modes
    assert hooks(model) == 0
    assert torch.equal(model.eval()(SOURCE[None], TARGET[None]), logits)


def test_a_failed_pass_leaves_nothing_behind(model: Transformer) -> None:
    """Breaks if hooks are removed at the end only."""
    model.train()
    with pytest.raises(IndexError):
        all_attention_weights(model, SOURCE, torch.tensor([2, V]))
    assert hooks(model) == 0
    assert all(module.training for module in model.modules())


def test_one_sentence_or_one_batch(model: Transformer) -> None:
    message = r"source and target must be \[S\] and \[T\], or \[B, S\] and \[B, T\]; are \[4\] and"
    with pytest.raises(ValueError, match=message):
        all_attention_weights(model, SOURCE, TARGET[None])

"""Section 5.4: dropout on every sub-layer's output and on the embedding sums, and nowhere else."""

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from fairseq_aiayn.nn import attention
from fairseq_aiayn.nn.attention import MultiHeadAttention
from fairseq_aiayn.nn.layers import AddAndNorm, Dimensions, Dropout, FeedForward
from fairseq_aiayn.nn.transformer import Transformer, create_transformer

DIMENSIONS = Dimensions(N=2, d_model=8, d_ff=12, h=2, d_k=3, d_v=5, P_drop=0.25)
SOURCE, TARGET = torch.tensor([[4, 5, 6, 2]]), torch.tensor([[2, 7, 8]])


class Recorder:
    """Records where dropout is applied and at which rate, and drops nothing."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self.dropped: list[tuple[Tensor, float]] = []
        self.attention: list[float] = []
        fused, drop = attention.fused_attention, Dropout.forward

        def dropout(module: Dropout, x: Tensor) -> Tensor:
            self.dropped.append((x, module.p if drop(module, x) is not x else 0.0))
            return x

        def attend(*arguments: Tensor | bool | float | None) -> Tensor:
            self.attention.append(arguments[-1])
            return fused(*arguments[:-1], 0.0)

        monkeypatch.setattr(Dropout, "forward", dropout)
        monkeypatch.setattr(attention, "fused_attention", attend)


def transformer(sizes: Dimensions = DIMENSIONS) -> Transformer:
    """A Transformer in training mode."""
    torch.manual_seed(0)
    return create_transformer(sizes, 10, 10, padding=1)


def test_exactly_the_tensors_of_section_5_4(monkeypatch: pytest.MonkeyPatch) -> None:
    """Breaks if dropout is inside the feed-forward layer, on attention weights, on embeddings
    before the positions are added, after the norm or after the sum, or if a sub-layer or an
    embedding sum has none, or if evaluation drops."""
    model = transformer()
    expected: list[Tensor] = []
    for module in model.modules():
        if isinstance(module, MultiHeadAttention | FeedForward):
            module.register_forward_hook(lambda module, inputs, output: expected.append(output))
    recorder = Recorder(monkeypatch)
    model(SOURCE, TARGET)
    for index, stack, tokens in ((0, model.encoder, SOURCE), (5, model.decoder, TARGET)):
        n = tokens.size(1)
        expected.insert(index, stack.embedding(tokens) + stack.position(torch.arange(n), n))
    assert len(recorder.dropped) == len(expected) == (1 + 2 * DIMENSIONS.N) + (1 + 3 * DIMENSIONS.N)
    for (x, rate), tensor in zip(recorder.dropped, expected, strict=True):
        assert rate == DIMENSIONS.P_drop
        torch.testing.assert_close(x, tensor)
    assert recorder.attention == [0.0] * (3 * DIMENSIONS.N)
    recorder.dropped.clear()
    model.eval()(SOURCE, TARGET)
    assert {rate for _, rate in recorder.dropped} == {0.0}


def test_dropout_comes_before_the_sum_and_the_norm(monkeypatch: pytest.MonkeyPatch) -> None:
    """LayerNorm(x + Dropout(Sublayer(x))): if everything is dropped, it is LayerNorm(x), not 0."""
    residual = AddAndNorm(8, 0.5)
    monkeypatch.setattr(Dropout, "forward", lambda module, x: torch.zeros_like(x))
    x = torch.randn(2, 3, 8)
    torch.testing.assert_close(residual(x, torch.randn(2, 3, 8)), residual.norm(x))
    assert residual.norm.eps == 1e-6


def test_attention_dropout_only_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Section 6.3 selects attention dropout for parsing. Breaks if it follows P_drop or stays on in
    evaluation."""
    model = transformer(replace(DIMENSIONS, attention_dropout=0.4))
    recorder = Recorder(monkeypatch)
    model(SOURCE, TARGET)
    model.eval()(SOURCE, TARGET)
    assert recorder.attention == [0.4] * (3 * DIMENSIONS.N) + [0.0] * (3 * DIMENSIONS.N)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_dropped_attention_weights_are_0_and_the_others_larger(dtype: torch.dtype) -> None:
    """Breaks if weights are dropped before the softmax, at another rate, or not scaled. With Q = 0
    all weights are equal, and with V the identity the output is the weights."""
    torch.manual_seed(0)
    Q, V = torch.zeros(1, 1, 4000, 4, dtype=dtype), torch.eye(4, dtype=dtype)[None, None]
    weights = attention.fused_attention(Q, V, V, None, False, 0.2)
    kept = weights.ne(0)
    torch.testing.assert_close(weights[kept], torch.full_like(weights[kept], 0.25 / 0.8))
    assert abs(kept.double().mean() - 0.8) < 4 * math.sqrt(0.2 * 0.8 / weights.numel())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_dropout_does_what_its_naive_twin_does(dtype: torch.dtype) -> None:
    """Breaks if a different share is dropped, kept elements are scaled differently (rounding 1/0.9
    to bfloat16 alone makes them 0.16% too small), or neighbours that share random bits are dropped
    together."""
    torch.manual_seed(0)
    n, p = 1_000_001, 0.1  # odd: the last element has a draw of its own
    x = (1.0 + torch.rand(n)).to(dtype).requires_grad_()
    fast, reference = Dropout(p)(x), F.dropout(x.detach(), p)
    assert fast.dtype == dtype and fast.shape == x.shape
    kept = fast.detach().ne(0)
    torch.testing.assert_close(fast[kept], x[kept] / (1 - p))
    ratio = fast[kept].double().sum() / x[kept].double().sum()
    assert abs(ratio * (1 - p) - 1) < 1e-4
    share, both = fast.eq(0).double().mean(), fast[:-1].view(-1, 2).eq(0).all(1).double().mean()
    deviation = math.sqrt(p * (1 - p) / n)
    assert abs(share - p) < 4 * deviation
    assert abs(share - reference.eq(0).double().mean()) < 6 * deviation
    assert abs(both - p * p) < 4 * math.sqrt(p * p / (n / 2))
    fast.sum().backward()
    torch.testing.assert_close(x.grad, kept.to(dtype) / (1 - p))

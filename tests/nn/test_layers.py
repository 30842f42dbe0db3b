"""Dropout (5.4), initial weights, and positions (3.5)."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from fairseq_aiayn.nn import attention
from fairseq_aiayn.nn.attention import MultiHeadAttention
from fairseq_aiayn.nn.dimensions import Dimensions
from fairseq_aiayn.nn.initialization import INITIALIZATIONS
from fairseq_aiayn.nn.layers import (
    LONGEST_SINUSOIDS,
    Dropout,
    FeedForward,
    SinusoidalPositions,
    sinusoids,
)
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


@pytest.mark.parametrize("attention_dropout", [0.0, 0.4])
def test_exactly_the_tensors_of_section_5_4(monkeypatch, attention_dropout):
    """Breaks if dropout is inside the feed-forward layer, on embeddings before the positions are
    added, after the norm or after the sum, if a sub-layer or an embedding sum has none, or if
    evaluation drops; and if attention weights are dropped without being asked for, as section 6.3
    does for parsing, or with P_drop."""
    model = transformer(replace(DIMENSIONS, attention_dropout=attention_dropout))
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
    recorder.dropped.clear()
    model.eval()(SOURCE, TARGET)
    assert {rate for _, rate in recorder.dropped} == {0.0}
    rates = [attention_dropout] * (3 * DIMENSIONS.N) + [0.0] * (3 * DIMENSIONS.N)
    assert recorder.attention == rates


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_dropped_attention_weights_are_0_and_the_others_larger(dtype):
    """Breaks if weights are dropped before the softmax, at another rate, or not scaled. With Q = 0
    all weights are equal, and with V the identity the output is the weights."""
    torch.manual_seed(0)
    Q, V = torch.zeros(1, 1, 4000, 4, dtype=dtype), torch.eye(4, dtype=dtype)[None, None]
    weights = attention.fused_attention(Q, V, V, None, False, 0.2)
    kept = weights.ne(0)
    torch.testing.assert_close(weights[kept], torch.full_like(weights[kept], 0.25 / 0.8))
    assert abs(kept.double().mean() - 0.8) < 4 * math.sqrt(0.2 * 0.8 / weights.numel())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_dropout_drops_and_scales_every_element_by_itself(dtype):
    """Breaks if another share is dropped, what is kept is scaled otherwise (rounding 1/0.9 to
    bfloat16 alone makes it 0.16% too small), or neighbours that share random bits go together."""
    torch.manual_seed(0)
    n, p = 1_000_001, 0.1  # odd: the last element has a draw of its own
    x = (1.0 + torch.rand(n)).to(dtype).requires_grad_()
    y = Dropout(p)(x)
    kept = y.detach().ne(0)
    torch.testing.assert_close(y[kept], x[kept] / (1 - p))
    ratio = y[kept].double().sum() / x[kept].double().sum()
    assert abs(ratio * (1 - p) - 1) < 1e-4
    share, both = y.eq(0).double().mean(), y[:-1].view(-1, 2).eq(0).all(1).double().mean()
    assert abs(share - p) < 4 * math.sqrt(p * (1 - p) / n)
    assert abs(both - p * p) < 4 * math.sqrt(p * p / (n / 2))
    y.sum().backward()
    torch.testing.assert_close(x.grad, kept.to(dtype) / (1 - p))


# Each scheme has the bounds of the implementation that it is named after.

# Large enough for the largest value to come within 3% of its bound
WIDE = Dimensions(N=1, d_model=64, d_ff=256, h=4, d_k=8, d_v=16, P_drop=0.1)
QK, VALUES = 4 * 8, 4 * 16


@pytest.mark.parametrize("scheme", INITIALIZATIONS)
def test_a_scheme_draws_what_its_implementation_draws(scheme):
    """Breaks if a matrix is drawn with another one's bound, W^Q with W^K and W^V or apart, or if
    words or learned positions do not have a standard deviation of d_model^−½."""
    torch.manual_seed(1)
    model = create_transformer(WIDE, 90, 90, 1, "all", (80, 80), initialization=scheme)
    for table in (model.encoder.embedding, model.encoder.position, model.decoder.position):
        assert table.weight.std().item() == pytest.approx(64**-0.5, rel=0.05)
    (encoder,), (decoder,) = model.encoder.layers, model.decoder.layers
    cross, own = decoder.cross_attention, (encoder.self_attention, decoder.self_attention)
    drawn = [(attention.W_O.weight, VALUES + 64) for attention in (*own, cross)]
    drawn += [(attention.W_QKV.weight, 64 + 2 * QK + VALUES) for attention in own]
    if scheme == "tensor2tensor":
        W_Q, W_KV = cross.W_QKV.weight.split([QK, QK + VALUES])
        drawn += [(W_Q, 64 + QK), (W_KV, 64 + QK + VALUES)]
    else:
        drawn += [(cross.W_QKV.weight, 64 + 2 * QK + VALUES)]
    for network in (encoder.feed_forward, decoder.feed_forward):
        if scheme == "fairseq":  # PyTorch's own: 1/√fan_in, for biases too
            drawn += [(network.W_1.weight, 6 * 64), (network.W_1.bias, 6 * 64)]
            drawn += [(network.W_2.weight, 6 * 256)]
            assert network.W_2.bias.any() and network.W_2.bias.abs().max() <= 1 / math.sqrt(256)
        else:
            drawn += [(network.W_1.weight, 64 + 256), (network.W_2.weight, 256 + 64)]
            assert not network.W_1.bias.any() and not network.W_2.bias.any()
    for values, fans in drawn:  # Glorot's uniform distribution
        bound = math.sqrt(6 / fans)
        assert 0.97 * bound < values.abs().max() <= bound
        assert values.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.05)


def test_sinusoids_of_a_model_are_no_part_of_its_checkpoint():
    """They have a fixed length, beyond which a sequence is refused."""
    position = SinusoidalPositions(6)
    assert not position.state_dict() and not list(position.parameters())
    pos = torch.tensor([[0, 3], [9, LONGEST_SINUSOIDS - 1]])
    assert torch.equal(position(pos, LONGEST_SINUSOIDS), sinusoids(LONGEST_SINUSOIDS, 6)[pos])
    with pytest.raises(ValueError, match=f"end at length {LONGEST_SINUSOIDS}, got a sequence of"):
        position(pos, LONGEST_SINUSOIDS + 1)
    with pytest.raises(ValueError, match="d_model must be even, .*; got 7"):
        SinusoidalPositions(7)

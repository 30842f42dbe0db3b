"""Dropout (5.4), initial weights, and positions (3.5)."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from fairseq_aiayn.nn import attention
from fairseq_aiayn.nn.attention import MultiHeadAttention
from fairseq_aiayn.nn.initialization import INITIALIZATIONS, Initialization
from fairseq_aiayn.nn.layers import (
    LONGEST_SINUSOIDS,
    Dimensions,
    Dropout,
    FeedForward,
    SinusoidalPositions,
    positions,
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
def test_dropout_drops_and_scales_every_element_by_itself(dtype: torch.dtype) -> None:
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
def test_a_scheme_draws_what_its_implementation_draws(scheme: Initialization) -> None:
    """Breaks if a matrix is drawn with another one's bound, or W^Q with W^K and W^V or apart."""
    torch.manual_seed(1)
    model = create_transformer(WIDE, 11, 11, padding=1, initialization=scheme)
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


def test_initial_embeddings_have_unit_variance_after_scaling() -> None:
    """Breaks if √d_model is applied twice or not at all, so that positions outweigh words or the
    reverse."""
    torch.manual_seed(0)
    sizes = Dimensions(N=1, d_model=64, d_ff=8, h=1, d_k=4, d_v=4, P_drop=0.0)
    embedding = create_transformer(sizes, 500, 500, 1).encoder.embedding
    assert embedding(torch.arange(500)[None]).std().item() == pytest.approx(1.0, abs=0.02)
    assert embedding.weight.std().item() == pytest.approx(64**-0.5, rel=0.02)


# Positions

PAD = 1


def test_positions_count_from_zero_at_the_first_real_token() -> None:
    """Breaks if padding takes a position (fairseq's own positions start at padding + 1), or if
    padding works on one side only."""
    tokens = torch.tensor([[5, 6, 7, 2], [PAD, PAD, 5, 2], [5, 2, PAD, PAD]])
    pos = positions(tokens, PAD)
    real = [row[tokens.ne(PAD)[b]].tolist() for b, row in enumerate(pos)]
    assert real == [[0, 1, 2, 3], [0, 1], [0, 1]]
    assert pos.min() >= 0 and pos.max() < 4, "padding needs a valid position too"


def test_sinusoids_by_hand_also_far_out() -> None:
    """Breaks if sines and cosines are in two halves, the exponent is i/d_model, positions start at
    1, or angles are computed in float32: at position 30,011 they are off by 1e-3."""
    d_model, table = 16, sinusoids(30_012, 16)
    for pos in (0, 1, 2, 30_011):
        for i in range(d_model // 2):
            angle = pos / 10000 ** (2 * i / d_model)
            pair = (math.sin(angle), math.cos(angle))
            assert table[pos, 2 * i : 2 * i + 2].tolist() == pytest.approx(pair, abs=1e-6)


def test_sinusoids_of_a_model_are_no_part_of_its_checkpoint() -> None:
    """They have a fixed length, beyond which a sequence is refused."""
    position = SinusoidalPositions(6).to(torch.float16)
    assert not position.state_dict() and not list(position.parameters())
    pos = torch.tensor([[0, 3], [9, LONGEST_SINUSOIDS - 1]])
    expected = sinusoids(LONGEST_SINUSOIDS, 6).to(torch.float16)[pos]
    assert torch.equal(position(pos, LONGEST_SINUSOIDS), expected)
    with pytest.raises(ValueError, match=f"end at length {LONGEST_SINUSOIDS}, got a sequence of"):
        position(pos, LONGEST_SINUSOIDS + 1)
    with pytest.raises(ValueError, match="d_model must be even, .*; got 7"):
        SinusoidalPositions(7)

"""Initial weights: each scheme has the bounds of the implementation that it is named after."""

import math

import pytest
import torch
from torch import Tensor

from fairseq_aiayn.nn.initialization import INITIALIZATIONS, Initialization
from fairseq_aiayn.nn.layers import Dimensions
from fairseq_aiayn.nn.transformer import create_transformer

# Large enough for the largest value to come within 3% of its bound
DIMENSIONS = Dimensions(N=1, d_model=64, d_ff=256, h=4, d_k=8, d_v=16, P_drop=0.1)
QUERIES, KEYS, VALUES = 4 * 8, 4 * 8, 4 * 16


def assert_uniform(values: Tensor, bound: float) -> None:
    assert values.abs().max() <= bound
    assert values.abs().max() > 0.97 * bound
    assert values.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.05)


def assert_glorot(values: Tensor, fan_in: int, fan_out: int) -> None:
    assert_uniform(values, math.sqrt(6 / (fan_in + fan_out)))


@pytest.mark.parametrize("scheme", INITIALIZATIONS)
def test_a_scheme_draws_what_its_implementation_draws(scheme: Initialization) -> None:
    """Breaks if a matrix is drawn with another one's bound, or W^Q with W^K and W^V or apart."""
    torch.manual_seed(1)
    model = create_transformer(DIMENSIONS, 11, 11, padding=1, initialization=scheme)
    (encoder,), (decoder,) = model.encoder.layers, model.decoder.layers
    cross = decoder.cross_attention
    for attention in (encoder.self_attention, decoder.self_attention):
        assert_glorot(attention.W_QKV.weight, 64, QUERIES + KEYS + VALUES)
        assert_glorot(attention.W_O.weight, VALUES, 64)
    assert_glorot(cross.W_O.weight, VALUES, 64)
    if scheme == "tensor2tensor":
        assert_glorot(cross.W_QKV.weight[:QUERIES], 64, QUERIES)
        assert_glorot(cross.W_QKV.weight[QUERIES:], 64, KEYS + VALUES)
    else:
        assert_glorot(cross.W_QKV.weight, 64, QUERIES + KEYS + VALUES)
    for network in (encoder.feed_forward, decoder.feed_forward):
        if scheme == "fairseq":
            assert_uniform(network.W_1.weight, 1 / math.sqrt(64))
            assert_uniform(network.W_1.bias, 1 / math.sqrt(64))
            assert_uniform(network.W_2.weight, 1 / math.sqrt(256))
            assert network.W_2.bias.any() and network.W_2.bias.abs().max() <= 1 / math.sqrt(256)
        else:
            assert_glorot(network.W_1.weight, 64, 256)
            assert_glorot(network.W_2.weight, 256, 64)
            assert not network.W_1.bias.any() and not network.W_2.bias.any()


def test_initial_embeddings_have_unit_variance_after_scaling() -> None:
    """Breaks if √d_model is applied twice or not at all, so that positions outweigh words or the
    reverse."""
    torch.manual_seed(0)
    sizes = Dimensions(N=1, d_model=64, d_ff=8, h=1, d_k=4, d_v=4, P_drop=0.0)
    embedding = create_transformer(sizes, 500, 500, 1).encoder.embedding
    assert embedding(torch.arange(500)[None]).std().item() == pytest.approx(1.0, abs=0.02)
    assert embedding.weight.std().item() == pytest.approx(64**-0.5, rel=0.02)


def test_an_unknown_scheme_is_refused_with_the_schemes_there_are() -> None:
    with pytest.raises(ValueError, match="tensor2tensor, fairseq-0.9, fairseq, got 'he'"):
        create_transformer(DIMENSIONS, 11, 11, 1, initialization="he")

"""Initial weights: each scheme has the bounds of the implementation that it is named after."""

import math

import pytest
import torch
from torch import Tensor

from fairseq_aiayn.nn.initialization import INITIALIZATIONS, Initialization
from fairseq_aiayn.nn.layers import Dimensions
from fairseq_aiayn.nn.transformer import Transformer, create_transformer

# Large enough for the largest value to come within 1% of its bound
DIMENSIONS = Dimensions(N=1, d_model=64, d_ff=256, h=4, d_k=8, d_v=16, P_drop=0.1)


def model(scheme: Initialization) -> Transformer:
    torch.manual_seed(1)
    return create_transformer(DIMENSIONS, 11, 11, padding=1, initialization=scheme)


def glorot(fan_in: int, fan_out: int) -> float:
    return math.sqrt(6 / (fan_in + fan_out))


def assert_uniform(values: Tensor, bound: float) -> None:
    assert values.abs().max() <= bound
    assert values.abs().max() > 0.97 * bound
    assert values.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.05)


@pytest.mark.parametrize("scheme", INITIALIZATIONS)
def test_projections_of_self_attention_are_drawn_as_one_glorot_matrix(scheme):
    layers = model(scheme)
    for attention in (
        layers.encoder.layers[0].self_attention,
        layers.decoder.layers[0].self_attention,
    ):
        assert_uniform(attention.W_QKV.weight, glorot(64, 4 * (8 + 8 + 16)))
        assert_uniform(attention.W_O.weight, glorot(4 * 16, 64))


@pytest.mark.parametrize("scheme", ["fairseq-0.9", "fairseq"])
def test_fairseq_draws_the_encoder_decoder_attention_as_a_self_attention(scheme):
    attention = model(scheme).decoder.layers[0].cross_attention
    assert_uniform(attention.W_QKV.weight, glorot(64, 4 * (8 + 8 + 16)))


def test_tensor2tensor_draws_queries_of_the_encoder_decoder_attention_apart():
    attention = model("tensor2tensor").decoder.layers[0].cross_attention
    queries = 4 * 8
    assert_uniform(attention.W_QKV.weight[:queries], glorot(64, queries))
    assert_uniform(attention.W_QKV.weight[queries:], glorot(64, 4 * (8 + 16)))


@pytest.mark.parametrize("scheme", ["tensor2tensor", "fairseq-0.9"])
def test_feed_forward_matrices_are_glorot_with_zero_biases(scheme):
    network = model(scheme).encoder.layers[0].feed_forward
    assert_uniform(network.W_1.weight, glorot(64, 256))
    assert_uniform(network.W_2.weight, glorot(256, 64))
    assert not network.W_1.bias.any()
    assert not network.W_2.bias.any()


def test_fairseq_leaves_the_feed_forward_network_as_torch_draws_it():
    network = model("fairseq").decoder.layers[0].feed_forward
    assert_uniform(network.W_1.weight, 1 / math.sqrt(64))
    assert_uniform(network.W_1.bias, 1 / math.sqrt(64))
    assert_uniform(network.W_2.weight, 1 / math.sqrt(256))
    assert network.W_2.bias.abs().max() <= 1 / math.sqrt(256)


def test_an_unknown_scheme_is_refused_with_the_schemes_there_are():
    with pytest.raises(
        ValueError, match="expected one of tensor2tensor, fairseq-0.9, fairseq, got 'he'"
    ):
        model("he")

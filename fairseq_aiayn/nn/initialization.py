"""The initial values of the weights. The paper does not state them; each scheme follows an existing
implementation.

| scheme        | feed-forward network          | encoder-decoder attention            |
|---------------|-------------------------------|--------------------------------------|
| tensor2tensor | Glorot-uniform, biases 0      | W^Q one matrix, W^K and W^V another  |
| fairseq-0.9   | Glorot-uniform, biases 0      | W^Q, W^K and W^V one matrix          |
| fairseq       | as torch.nn.Linear draws them | W^Q, W^K and W^V one matrix          |

"One matrix" means drawn as one matrix. This matters because Glorot's bound √(6 / (fan_in +
fan_out)) falls with the number of rows. In all three schemes, W^Q, W^K and W^V of a self-attention
are one Glorot-uniform matrix, W^O is another, and embeddings have the standard deviation
d_model^−½. The schemes are those of tensor2tensor in June 2017, of fairseq up to 0.9.0, and of
fairseq since March 2020.
"""

from __future__ import annotations

from typing import Literal, get_args

from torch import nn
from torch.nn.init import xavier_uniform_, zeros_

from fairseq_aiayn.nn.attention import EncoderDecoderAttention, MultiHeadAttention
from fairseq_aiayn.nn.layers import FeedForward

__all__ = ["INITIALIZATIONS"]

Initialization = Literal["tensor2tensor", "fairseq-0.9", "fairseq"]
INITIALIZATIONS: tuple[Initialization, ...] = get_args(Initialization)


def initialize(transformer: nn.Module, scheme: Initialization) -> None:
    """Draw new weights for the projections and the feed-forward networks; embeddings stay
    unchanged."""
    for module in transformer.modules():
        if isinstance(module, MultiHeadAttention):
            xavier_uniform_(module.W_QKV.weight)
            xavier_uniform_(module.W_O.weight)
        elif isinstance(module, FeedForward):
            draw_feed_forward(module, scheme)
    if scheme == "tensor2tensor":
        for module in transformer.modules():
            if isinstance(module, EncoderDecoderAttention):
                draw_queries_apart(module)


def draw_feed_forward(network: FeedForward, scheme: Initialization) -> None:
    """Draw W_1, b_1, W_2 and b_2 of Equation 2."""
    for linear in (network.W_1, network.W_2):
        if scheme == "fairseq":
            linear.reset_parameters()  # uniform within ±1/√fan_in, including the bias
        else:
            xavier_uniform_(linear.weight)
            zeros_(linear.bias)


def draw_queries_apart(attention: EncoderDecoderAttention) -> None:
    """Draw W^Q as one Glorot-uniform matrix, and W^K and W^V together as another.

    Each matrix has fewer rows than all three together, so the values are larger.
    """
    queries = attention.projection_sizes[0]
    weight = attention.W_QKV.weight.data
    xavier_uniform_(weight[:queries])
    xavier_uniform_(weight[queries:])

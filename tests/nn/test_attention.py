"""Section 3.2: the fused kernel compared with Equation 1, heads, masks and projections."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from fairseq_aiayn.nn.attention import (
    EncoderDecoderAttention,
    MultiHeadAttention,
    SelfAttention,
    attention,
    attention_weights,
    causal_mask,
    fused_attention,
)
from fairseq_aiayn.nn.layers import Dimensions

DIMENSIONS = Dimensions(N=1, d_model=6, d_ff=8, h=2, d_k=5, d_v=4, P_drop=0.1)


def as_written(layer: MultiHeadAttention, x: Tensor, memory: Tensor, mask: Tensor | None) -> Tensor:
    """Section 3.2.2 with a loop over heads; the rows of W^Q, W^K and W^V are those of head 1, then
    those of head 2."""
    W_Q, W_K, W_V = layer.W_QKV.weight.split([2 * 5, 2 * 5, 2 * 4])
    heads = []
    for i in range(2):
        k, v = slice(5 * i, 5 * i + 5), slice(4 * i, 4 * i + 4)
        head_mask = None if mask is None else mask.expand(-1, 2, -1, -1)[:, i]
        heads.append(attention(x @ W_Q[k].T, memory @ W_K[k].T, memory @ W_V[v].T, head_mask))
    return torch.cat(heads, dim=-1) @ layer.W_O.weight.T


@given(
    L=st.integers(1, 6),
    M=st.integers(1, 6),
    kind=st.sampled_from(["none", "padding", "every pair"]),
    seed=st.integers(0, 1000),
)
def test_multi_head_attention_is_section_3_2_2(L: int, M: int, kind: str, seed: int) -> None:
    """Breaks if the polarity of the mask, the scale 1/√d_k, the order of the heads, or queries and
    keys are mixed up, in either kind of attention."""
    torch.manual_seed(seed)
    x, memory = (torch.randn(3, n, 6, dtype=torch.float64) for n in (L, M))
    per_key, per_pair = torch.rand(3, 1, 1, M) < 0.5, torch.rand(3, 2, L, M) < 0.5
    per_key[..., 0] = per_pair[..., 0] = True  # every query has a key
    mask = {"none": None, "padding": per_key, "every pair": per_pair}[kind]
    layer = EncoderDecoderAttention(DIMENSIONS).double()
    torch.testing.assert_close(layer(x, memory, mask), as_written(layer, x, memory, mask))
    own = SelfAttention(DIMENSIONS).double()
    own_mask = None if mask is None else per_key
    torch.testing.assert_close(own(memory, own_mask), as_written(own, memory, memory, own_mask))
    causal = causal_mask(L)[None, None]
    torch.testing.assert_close(own(x, causal=True), as_written(own, x, x, causal))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("causal", [False, True])
def test_a_kernel_that_is_slow_here_has_the_result_of_the_other(
    dtype: torch.dtype, causal: bool
) -> None:
    """In bfloat16 with gradients, a CPU computes Equation 1 as written."""
    torch.manual_seed(0)
    Q, K, V = (torch.randn(2, 3, 5, 4, dtype=dtype) for _ in range(3))
    written = fused_attention(Q, K, V, None, causal, 0.0)
    with torch.no_grad():
        fused = fused_attention(Q, K, V, None, causal, 0.0)
    torch.testing.assert_close(written, fused, rtol=0.02, atol=0.02)


def test_the_causal_mask_lets_a_position_see_itself_and_what_came_before() -> None:
    assert causal_mask(3).tolist() == [[True, False, False], [True, True, False], [True] * 3]


def test_weights_of_a_hand_computed_case() -> None:
    """softmax(QKᵀ/√d_k) with d_k = 4: scores 2/√4 and 0. Breaks if the scale is missing, or is
    √d_model, √d_v or d_k."""
    Q = torch.tensor([[2.0, 0.0, 0.0, 0.0]])
    K = torch.tensor([[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [9.0, 0.0, 0.0, 0.0]])
    weights = attention_weights(Q, K, torch.tensor([True, True, False]))
    e = math.e
    torch.testing.assert_close(weights, torch.tensor([[e / (e + 1), 1 / (e + 1), 0.0]]))
    assert weights[0, 2] == 0.0, "an illegal connection has no weight at all"

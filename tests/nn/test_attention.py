"""Section 3.2: the fused kernel compared with Equation 1, heads, masks and projections."""

import math

import pytest
import torch
from torch import Tensor

from fairseq_aiayn.nn.attention import MultiHeadAttention, attention, attention_weights, causal_mask
from fairseq_aiayn.nn.layers import Dimensions

DIMENSIONS = Dimensions(N=1, d_model=6, d_ff=8, h=2, d_k=5, d_v=4, P_drop=0.1)
B, L, M = 3, 4, 7


def random_masks() -> dict[str, Tensor | None]:
    """Masks like those of the stacks; key 0 stays legal, so that every query has a key."""
    per_key, per_pair = torch.rand(B, 1, 1, M) < 0.5, torch.rand(B, 2, L, M) < 0.5
    per_key[..., 0] = per_pair[..., 0] = True
    return {"none": None, "padding": per_key, "every pair": per_pair}


def multi_head_as_written(
    layer: MultiHeadAttention, x: Tensor, memory: Tensor, mask: Tensor | None
) -> Tensor:
    """Section 3.2.2, computed with the reference `attention`."""
    heads = attention(layer.queries(x), *layer.keys_values(memory), mask)  # [B, h, L, d_v]
    return layer.W_O(torch.cat(list(heads.unbind(1)), dim=-1))


@pytest.mark.parametrize("kind", ["none", "padding", "every pair"])
def test_fused_path_equals_the_equation(kind: str) -> None:
    """Breaks if the two differ in the polarity of the mask, the scale 1/√d_k or the order of the
    heads."""
    torch.manual_seed(0)
    mask = random_masks()[kind]
    layer = MultiHeadAttention(DIMENSIONS).double()
    x, memory = (torch.randn(B, n, 6, dtype=torch.float64) for n in (L, M))
    expected = multi_head_as_written(layer, x, memory, mask)
    torch.testing.assert_close(layer(x, memory, mask), expected)


def test_fused_causal_path_equals_the_causal_mask() -> None:
    """Breaks if a position cannot see itself or sees the next one."""
    torch.manual_seed(0)
    layer = MultiHeadAttention(DIMENSIONS).double()
    x = torch.randn(B, L, 6, dtype=torch.float64)
    expected = multi_head_as_written(layer, x, x, causal_mask(L))
    torch.testing.assert_close(layer(x, x, causal=True), expected)
    assert causal_mask(3).tolist() == [[True, False, False], [True, True, False], [True] * 3]


def test_a_mask_beside_causal_is_refused() -> None:
    """Breaks if one of the two is silently ignored, which depends on device and dropout."""
    x, mask = torch.randn(B, L, 6), torch.ones(L, L, dtype=torch.bool)
    with pytest.raises(ValueError, match="a mask or causal, not both"):
        MultiHeadAttention(DIMENSIONS)(x, x, mask, causal=True)


def test_weights_of_a_hand_computed_case() -> None:
    """softmax(QKᵀ/√d_k) with d_k = 4: scores 2/√4 and 0. Breaks if the scale is missing, or is
    √d_model, √d_v or d_k."""
    Q = torch.tensor([[2.0, 0.0, 0.0, 0.0]])
    K = torch.tensor([[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [9.0, 0.0, 0.0, 0.0]])
    weights = attention_weights(Q, K, torch.tensor([True, True, False]))
    e = math.e
    torch.testing.assert_close(weights, torch.tensor([[e / (e + 1), 1 / (e + 1), 0.0]]))
    assert weights[0, 2] == 0.0, "an illegal connection has no weight at all"


def test_illegal_keys_get_no_gradient() -> None:
    """Breaks if a mask is a large negative number that leaks, or is applied after the softmax."""
    torch.manual_seed(0)
    layer = MultiHeadAttention(DIMENSIONS)
    x, memory = torch.randn(1, L, 6), torch.randn(1, M, 6, requires_grad=True)
    legal = torch.tensor([True, True, False, True, False, False, True])
    layer(x, memory, legal.view(1, 1, 1, M)).square().sum().backward()
    assert (memory.grad[0].abs().sum(-1) > 0).tolist() == legal.tolist()


def test_projections_are_matrices_with_free_sizes() -> None:
    """Breaks if projections have biases, or if d_k = d_v = d_model / h is built in."""
    layer = MultiHeadAttention(DIMENSIONS)
    assert {name: tuple(weight.shape) for name, weight in layer.named_parameters()} == {
        "W_QKV.weight": (2 * (5 + 5 + 4), 6),
        "W_O.weight": (6, 2 * 4),
    }


def test_heads_are_independent() -> None:
    """Breaks if heads are split along another dimension: head 1 reads only its own rows of W^Q,
    W^K and W^V."""
    torch.manual_seed(0)
    layer = MultiHeadAttention(DIMENSIONS)
    x = torch.randn(1, L, 6)
    W_Q, W_K, W_V = layer.W_QKV.weight.split([2 * 5, 2 * 5, 2 * 4])
    for Q, K, V in (layer.queries_keys_values(x), (layer.queries(x), *layer.keys_values(x))):
        for heads, W, d in ((Q, W_Q, 5), (K, W_K, 5), (V, W_V, 4)):
            torch.testing.assert_close(heads[0, 1], x[0] @ W[d : 2 * d].T)

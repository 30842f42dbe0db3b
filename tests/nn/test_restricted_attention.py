"""Section 4's restricted self-attention: by blocks, against a band mask over Equation 1."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import fairseq_aiayn.nn.attention as nn_restricted
from fairseq_aiayn.nn.attention import (
    band_mask,
    banded_attention,
    fused_attention,
    restricted_attention,
)
from fairseq_aiayn.nn.layers import Dimensions
from fairseq_aiayn.nn.transformer import Transformer, create_transformer

B, h, d_k, d_v = 3, 2, 4, 5
PADDING = 1


def projected(length: int) -> list[Tensor]:
    """Queries, keys and values with gradients."""
    torch.manual_seed(length)
    sizes = (d_k, d_k, d_v)
    return [torch.randn(B, h, length, d, dtype=torch.float64, requires_grad=True) for d in sizes]


def padded(length: int, side: str) -> Tensor:
    """A mask [B, 1, 1, L] with 0, 1 and as many padded positions as leave one, on a side."""
    kept = torch.tensor([length, max(1, length - 1), 1])
    places = torch.arange(length)
    mask = places < kept[:, None] if side == "right" else places >= length - kept[:, None]
    return mask[:, None, None, :]


@pytest.mark.parametrize("causal", [False, True], ids=["encoder", "decoder"])
@pytest.mark.parametrize("side", ["none", "left", "right"])
@pytest.mark.parametrize(("r", "block"), [(1, 1), (2, 2), (3, 3), (5, 5), (2, 5), (1, 4)])
def test_blocks_equal_the_band_for_every_length(
    r: int, block: int, side: str, causal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lengths around multiples of a block, padding on either side, gradients; breaks if a block
    sees too little or too much of its neighbours, or padding."""
    monkeypatch.setattr(nn_restricted, "SMALLEST_BLOCK", block)
    for length in range(1, 3 * block + 3):
        mask = None if side == "none" else padded(length, side)
        blocks, band = projected(length), projected(length)
        found = restricted_attention(*blocks, r, mask, causal, 0.0)
        expected = banded_attention(*band, r, mask, causal)
        real = 1.0 if mask is None else mask.transpose(2, 3).double()
        torch.testing.assert_close(found * real, expected * real)
        assert found.isfinite().all(), "padding has no neighbour but must not become NaN"
        (found * real).sum().backward()
        (expected * real).sum().backward()
        for own, other in zip(blocks, band, strict=True):
            torch.testing.assert_close(own.grad, other.grad)


@pytest.mark.parametrize("causal", [False, True])
def test_a_window_over_the_whole_sentence_is_whole_attention_bit_for_bit(causal: bool) -> None:
    for length in (1, 4, 7):
        Q, K, V = projected(length)
        whole = fused_attention(Q, K, V, None, causal, 0.0)
        assert torch.equal(restricted_attention(Q, K, V, length - 1 or 1, None, causal, 0.0), whole)


def test_the_band() -> None:
    assert band_mask(4, 1, causal=False).int().tolist() == [
        [1, 1, 0, 0],
        [1, 1, 1, 0],
        [0, 1, 1, 1],
        [0, 0, 1, 1],
    ]
    assert band_mask(3, 1, causal=True).int().tolist() == [[1, 0, 0], [1, 1, 0], [0, 1, 1]]


def model(r: int | None) -> Transformer:
    """A small Transformer of float64 without dropout; the weights do not depend on the window."""
    torch.manual_seed(0)
    sizes = Dimensions(N=2, d_model=8, d_ff=12, h=2, d_k=3, d_v=5, P_drop=0.0, attention_window=r)
    return create_transformer(sizes, 11, 11, PADDING).double().eval()


def tokens(length: int, seed: int) -> Tensor:
    torch.manual_seed(seed)
    return torch.randint(4, 11, (B, length))


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short sentences have several blocks."""
    monkeypatch.setattr(nn_restricted, "SMALLEST_BLOCK", 1)


def test_information_travels_r_positions_per_layer() -> None:
    """With N = 2 layers of r = 2, position 0 of the source reaches position 4 and no further."""
    source = tokens(9, 1)
    changed = source.clone()
    changed[:, 0] = (changed[:, 0] - 4 + 1) % 7 + 4
    stack = model(2)
    difference = (stack.encode(source)[0] - stack.encode(changed)[0]).abs().amax(dim=(0, 2))
    assert (difference[:5] > 0).all() and (difference[5:] == 0).all()


def test_the_decoder_sees_nothing_later_and_steps_equal_the_whole() -> None:
    """Breaks if a step keeps nodes that are too old, or forgets one too early, also after beams and
    sentences were reordered."""
    r, length = 2, 12
    stack, source, target = model(r), tokens(6, 2), tokens(length, 3)
    source[0, :3] = PADDING
    whole = stack.decoder(target, *stack.encode(source))
    later = target.clone()
    later[:, 5:] = 4
    torch.testing.assert_close(stack.decoder(later, *stack.encode(source))[:, :5], whole[:, :5])
    state = stack.decoder.start(*stack.encode(source))
    kept = torch.arange(B)
    for step in range(length):
        found = stack.decoder.step(target[kept, step, None], state)
        torch.testing.assert_close(found[:, 0], whole[kept, step])
        if step == 4:
            kept = kept[[2, 0]]
            state.keep_sources(torch.tensor([2, 0]))
            state.reorder_beams(torch.tensor([2, 0]))
        else:
            state.follow(torch.zeros(len(kept), 1, dtype=torch.long))


def test_a_search_keeps_few_nodes() -> None:
    """Breaks if keys and values of the whole output stay in memory."""
    stack, source = model(2), tokens(5, 4)
    state = stack.decoder.start(*stack.encode(source))
    for _ in range(100):
        stack.decoder.step(torch.full((B * 2, 1), 5), state)
        state.follow(torch.tensor([[0, 1]] * B))
    assert state.ancestors.size(3) <= 2 * (2 + 1 + 8), "(r + 1) positions and 8 steps of room"


def test_a_window_below_1_is_refused() -> None:
    with pytest.raises(ValueError, match="attention_window must be at least 1, got 0"):
        model(0)

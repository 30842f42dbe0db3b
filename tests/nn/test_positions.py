"""Section 3.5: where positions start, the sinusoids' values and their shift property, learned
positions."""

import math

import pytest
import torch

from fairseq_aiayn.nn.layers import LearnedPositions, SinusoidalPositions, positions, sinusoids

PAD = 1


def test_positions_count_from_zero_at_the_first_real_token() -> None:
    """Breaks if padding takes a position (fairseq's own positions start at padding + 1), or if
    padding works on one side only."""
    tokens = torch.tensor([[5, 6, 7, 2], [PAD, PAD, 5, 2], [5, 2, PAD, PAD]])
    pos = positions(tokens, PAD)
    real = tokens.ne(PAD)
    assert [row[mask].tolist() for row, mask in zip(pos, real, strict=True)] == [
        [0, 1, 2, 3],
        [0, 1],
        [0, 1],
    ]
    assert pos.min() >= 0 and pos.max() < 4, "padding needs a valid position too"


def test_sinusoids_by_hand() -> None:
    """Breaks if sines and cosines are in two halves, the exponent is i/d_model, or positions start
    at 1."""
    angle = 100 / 10000 ** (200 / 512)
    assert sinusoids(101, 512)[100, 200].item() == pytest.approx(math.sin(angle), abs=1e-6)
    assert sinusoids(101, 512)[100, 201].item() == pytest.approx(math.cos(angle), abs=1e-6)
    expected = [
        [0.0, 1.0, 0.0, 1.0],
        [math.sin(1), math.cos(1), math.sin(0.01), math.cos(0.01)],
        [math.sin(2), math.cos(2), math.sin(0.02), math.cos(0.02)],
    ]
    torch.testing.assert_close(sinusoids(3, 4), torch.tensor(expected))


def test_sinusoids_stay_exact_far_out() -> None:
    """Breaks if angles are computed in float32: at position 30,011 they are off by 1e-3."""
    d_model, pos = 16, 30_011
    row = sinusoids(pos + 1, d_model)[pos].tolist()
    for i in range(d_model // 2):
        angle = pos / 10000 ** (2 * i / d_model)
        assert row[2 * i] == pytest.approx(math.sin(angle), abs=1e-6)
        assert row[2 * i + 1] == pytest.approx(math.cos(angle), abs=1e-6)


@pytest.mark.parametrize("k", [1, 7, 50])
def test_a_shift_is_a_linear_map(k: int) -> None:
    """Section 3.5: PE(pos + k) is a linear function of PE(pos), a rotation of each pair (sine,
    cosine)."""
    d_model = 8
    rotation = torch.zeros(d_model, d_model)
    for i in range(d_model // 2):
        angle = k / 10000 ** (2 * i / d_model)
        pair = slice(2 * i, 2 * i + 2)
        rotation[pair, pair] = torch.tensor(
            [[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]]
        )
    PE = sinusoids(120, d_model)
    torch.testing.assert_close(PE[k:], PE[:-k] @ rotation.T, rtol=0, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_sequences_longer_than_any_before(dtype: torch.dtype) -> None:
    """Breaks if the table ends at the longest training sentence, or if growing changes its values
    or its precision."""
    position = SinusoidalPositions(d_model=6).to(dtype)
    before = position(torch.arange(4), longest=4)
    for longest in (5, 9, 600):
        grown = position(torch.arange(longest), longest)
        assert grown.dtype == dtype
        torch.testing.assert_close(grown, sinusoids(longest, 6).to(dtype), rtol=0, atol=0)
        assert torch.equal(grown[:4], before)


def test_sinusoids_are_not_part_of_a_checkpoint() -> None:
    """Breaks if the longest sentence of a training decides whether its checkpoint can be loaded."""
    position = SinusoidalPositions(d_model=6)
    assert not position.state_dict() and not list(position.parameters())


def test_odd_d_model_is_refused() -> None:
    """Breaks if the last dimension silently lacks its cosine."""
    with pytest.raises(ValueError, match="d_model must be even, .*; got 7"):
        SinusoidalPositions(7)


def test_learned_positions_end_where_they_were_trained() -> None:
    """Table 3, row E. Breaks if a longer sequence reads past the table or wraps around, or if the
    vectors are not trained."""
    position = LearnedPositions(d_model=6, max_length=4)
    encodings = position(torch.tensor([0, 3]), longest=4)
    assert torch.equal(encodings, position.weight[[0, 3]])
    encodings.sum().backward()
    assert position.weight.grad.any(dim=1).tolist() == [True, False, False, True]
    with pytest.raises(ValueError, match="end at length 4, got a sequence of 5 tokens"):
        position(torch.arange(5), longest=5)

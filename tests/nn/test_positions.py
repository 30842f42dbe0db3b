"""Section 3.5: where positions start, the sinusoids' values, learned positions."""

import math

import pytest
import torch

from fairseq_aiayn.nn.layers import (
    LONGEST_SINUSOIDS,
    LearnedPositions,
    SinusoidalPositions,
    positions,
    sinusoids,
)

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
    expected = [
        [0.0, 1.0, 0.0, 1.0],
        [math.sin(1), math.cos(1), math.sin(0.01), math.cos(0.01)],
        [math.sin(2), math.cos(2), math.sin(0.02), math.cos(0.02)],
    ]
    torch.testing.assert_close(sinusoids(3, 4), torch.tensor(expected))
    d_model, pos = 16, 30_011
    row = sinusoids(pos + 1, d_model)[pos].tolist()
    for i in range(d_model // 2):
        angle = pos / 10000 ** (2 * i / d_model)
        pair = (math.sin(angle), math.cos(angle))
        assert row[2 * i : 2 * i + 2] == pytest.approx(pair, abs=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_sinusoids_of_a_model_are_no_part_of_its_checkpoint(dtype: torch.dtype) -> None:
    """They have a fixed length, beyond which a sequence is refused."""
    position = SinusoidalPositions(6).to(dtype)
    assert not position.state_dict() and not list(position.parameters())
    pos = torch.tensor([[0, 3], [9, LONGEST_SINUSOIDS - 1]])
    expected = sinusoids(LONGEST_SINUSOIDS, 6).to(dtype)[pos]
    assert torch.equal(position(pos, LONGEST_SINUSOIDS), expected)
    with pytest.raises(ValueError, match=f"end at length {LONGEST_SINUSOIDS}, got a sequence of"):
        position(pos, LONGEST_SINUSOIDS + 1)
    with pytest.raises(ValueError, match="d_model must be even, .*; got 7"):
        SinusoidalPositions(7)


def test_learned_positions_end_where_they_were_trained() -> None:
    """Table 3, row E. Breaks if a longer sequence reads past the table or wraps around, or if the
    vectors are not trained."""
    position = LearnedPositions(d_model=6, max_length=4)
    encodings = position(torch.tensor([0, 3]), length=4)
    assert torch.equal(encodings, position.weight[[0, 3]])
    encodings.sum().backward()
    assert position.weight.grad.any(dim=1).tolist() == [True, False, False, True]
    with pytest.raises(ValueError, match="end at length 4, got a sequence of 5 tokens"):
        position(torch.arange(5), length=5)

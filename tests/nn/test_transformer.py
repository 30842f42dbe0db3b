"""The assembled Transformer: masks, export, learned positions, impossible shapes.

tests/paper compares its outputs and gradients with the equations.
"""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from fairseq_aiayn.nn.dimensions import Dimensions
from fairseq_aiayn.nn.transformer import create_transformer, needed_mask, padding_mask

DIMENSIONS = Dimensions(N=2, d_model=8, d_ff=12, h=2, d_k=3, d_v=5, P_drop=0.1)
PAD, V = 1, 20


@pytest.fixture(autouse=True)
def seed() -> None:
    """The same weights and words, in whatever order the tests run."""
    torch.manual_seed(3)


def words(*size: int) -> Tensor:
    """Random tokens, none of them padding."""
    return torch.randint(4, V, size)


def test_a_mask_is_needed_where_something_is_padding() -> None:
    """Breaks if the fast path is lost: torch's fastest kernels take no mask."""
    padded, whole = torch.tensor([[4, 5, PAD], [4, 5, 6]]), words(2, 3)
    assert padding_mask(padded, PAD)[:, 0, 0].tolist() == [[True, True, False], [True] * 3]
    assert torch.equal(needed_mask(padded, PAD), padding_mask(padded, PAD))
    assert needed_mask(whole, PAD) is None
    model = create_transformer(DIMENSIONS, V, V, PAD).eval()
    torch.testing.assert_close(
        model.encode(whole, None), model.encode(whole, padding_mask(whole, PAD))
    )


def test_a_transformer_can_be_exported() -> None:
    """Whole, for any batch and lengths; breaks if forward reads a value of a tensor."""
    model = create_transformer(DIMENSIONS, V, V, PAD).eval()
    batch = torch.export.Dim("batch")
    S, T = (torch.export.Dim(name, max=30) for name in ("S", "T"))
    padded = torch.tensor([[PAD, 4, 5, 2], [6, 7, 8, 2], [PAD, PAD, 9, 2]])
    exported = torch.export.export(
        model,
        (padded, words(3, 5)),
        dynamic_shapes={"source": {0: batch, 1: S}, "target": {0: batch, 1: T}},
    ).module()
    for source, target in ((padded, words(3, 5)), (words(5, 7), words(5, 3))):
        torch.testing.assert_close(exported(source, target), model(source, target))


def test_learned_positions_have_a_length_for_either_side() -> None:
    """Table 3, row E. Breaks if source and target lengths are swapped, or if the sinusoids are
    still used."""
    model = create_transformer(DIMENSIONS, V, V, PAD, learned_lengths=(5, 3)).eval()
    same = words(1, 5).fill_(4), words(1, 3).fill_(4)
    for lengths, message in (((6, 3), "length 5, got .* of 6"), ((5, 4), "length 3, got .* of 4")):
        with pytest.raises(ValueError, match=message):
            model(*(words(1, length) for length in lengths))
    assert not torch.allclose(*model(*same)[0, 1:])
    with torch.no_grad():
        for stack in (model.encoder, model.decoder):
            stack.position.weight.zero_()
    torch.testing.assert_close(*model(*same)[0, 1:], msg="equal tokens without positions")


def test_impossible_shapes_are_refused() -> None:
    """Breaks if a Transformer without layers, or one that drops everything, is built."""
    for field, value in (("N", 0), ("d_v", 0), ("P_drop", 1.0), ("attention_dropout", -0.1)):
        with pytest.raises(ValueError, match=rf"{field} must be .*, got {value}"):
            replace(DIMENSIONS, **{field: value})
    with pytest.raises(ValueError, match="one joined vocabulary; got 27 source and 20 target"):
        create_transformer(DIMENSIONS, V + 7, V, PAD)

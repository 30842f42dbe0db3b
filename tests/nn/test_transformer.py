"""The assembled Transformer: masks, export, learned positions, impossible shapes.

tests/paper compares its outputs and gradients with the equations.
"""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from fairseq_aiayn.nn.layers import Dimensions
from fairseq_aiayn.nn.transformer import (
    create_transformer,
    needed_mask,
    padding_mask,
)

DIMENSIONS = Dimensions(N=2, d_model=8, d_ff=12, h=2, d_k=3, d_v=5, P_drop=0.1)
PAD, V = 1, 20


@pytest.fixture(autouse=True)
def seed() -> None:
    """The same weights and words, in whatever order the tests run."""
    torch.manual_seed(3)


def words(*size: int) -> Tensor:
    """Random tokens, none of them padding."""
    return torch.randint(4, V, size)


def test_a_mask_is_needed_where_something_is_padding(monkeypatch: pytest.MonkeyPatch) -> None:
    """Breaks if the fast path is lost: torch's fastest kernels take no mask, and the target needs
    only the causal one."""
    calls: list[tuple[bool, bool]] = []
    fused = torch.nn.functional.scaled_dot_product_attention

    def record(
        *tensors: Tensor, attn_mask: Tensor | None, dropout_p: float, is_causal: bool
    ) -> Tensor:
        calls.append((attn_mask is not None, is_causal))
        return fused(*tensors, attn_mask=attn_mask, dropout_p=dropout_p, is_causal=is_causal)

    model, whole = create_transformer(DIMENSIONS, V, V, PAD).double().eval(), words(2, 3)
    padded = torch.tensor([[4, 5, PAD], [4, 5, 6]])
    assert needed_mask(whole, PAD) is None
    assert padding_mask(padded, PAD)[:, 0, 0].tolist() == [[True, True, False], [True] * 3]
    assert torch.equal(needed_mask(padded, PAD), padding_mask(padded, PAD))
    torch.testing.assert_close(
        model.encode(whole, None), model.encode(whole, padding_mask(whole, PAD))
    )
    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", record)
    for source, masked in ((whole, False), (padded, True)):
        calls.clear()
        mask = needed_mask(source, PAD)
        model.decoder(words(2, 4), model.encode(source, mask), mask)
        assert calls == [(masked, False)] * 2 + [(False, True), (masked, False)] * 2


@pytest.mark.parametrize("learned", [False, True])
def test_a_transformer_can_be_exported(learned: bool) -> None:
    """Whole, for any batch and lengths; breaks if forward reads a value of a tensor."""
    lengths = (40, 30) if learned else None
    model = create_transformer(DIMENSIONS, V, V, PAD, learned_lengths=lengths).eval()
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
    before = model(*same)
    with pytest.raises(ValueError, match="end at length 5, got a sequence of 6 tokens"):
        model(words(1, 6), words(1, 3))
    with pytest.raises(ValueError, match="end at length 3, got a sequence of 4 tokens"):
        model(words(1, 5), words(1, 4))
    with torch.no_grad():
        for stack in (model.encoder, model.decoder):
            stack.position.weight.zero_()
    after = model(*same)
    assert not torch.allclose(before, after)
    torch.testing.assert_close(after[0, 1], after[0, 2], msg="equal tokens without positions")


def test_impossible_shapes_are_refused() -> None:
    """Breaks if a Transformer without layers or heads is built."""
    for field in ("N", "d_ff", "h", "d_k", "d_v"):
        with pytest.raises(ValueError, match=f"{field} must be at least 1, got 0"):
            replace(DIMENSIONS, **{field: 0})
    for field, rate in (("P_drop", 1.0), ("attention_dropout", -0.1)):
        with pytest.raises(ValueError, match=rf"{field} must be in \[0, 1\), got {rate}"):
            replace(DIMENSIONS, **{field: rate})
    with pytest.raises(ValueError, match="one joined vocabulary; got 27 source and 20 target"):
        create_transformer(DIMENSIONS, V + 7, V, PAD)

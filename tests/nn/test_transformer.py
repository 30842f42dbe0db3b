"""The assembled Transformer: masks, export, learned positions, impossible shapes; decoding token by
token equals the full forward pass, whatever the search does with its beams.

tests/paper compares its outputs and gradients with the equations.
"""

from dataclasses import astuple, replace

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from fairseq_aiayn.nn import cpu_kernels
from fairseq_aiayn.nn.decoder_state import STEPS_OF_ROOM, DecoderState
from fairseq_aiayn.nn.dimensions import Dimensions
from fairseq_aiayn.nn.transformer import Transformer, create_transformer, needed_mask, padding_mask

DIMENSIONS = Dimensions(N=2, d_model=8, d_ff=12, h=2, d_k=3, d_v=5, P_drop=0.1)
PAD, V, K = 1, 20, 3  # K beams per sentence
PADDED = torch.tensor([[4, 5, 6, 7, 2], [PAD, PAD, 8, 9, 2], [10, 2, PAD, PAD, PAD]])
UNPADDED = torch.tensor([[4, 5, 6], [7, 8, 2], [10, 11, 2]])


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


def transformer() -> Transformer:
    """A Transformer in float64, in evaluation mode."""
    return create_transformer(DIMENSIONS, V, V, PAD).double().eval()


def start(model: Transformer, source: Tensor) -> DecoderState:
    mask = needed_mask(source, PAD)
    return model.decoder.start(model.encode(source, mask), mask)


def whole(model: Transformer, source: Tensor, history: Tensor) -> Tensor:
    """Features of the last token of every beam's history [B·k, T] from a full forward pass:
    [B·k, d_model]."""
    source = source.repeat_interleave(len(history) // len(source), dim=0)
    mask = needed_mask(source, PAD)
    return model.decoder(history, model.encode(source, mask), mask)[:, -1]


@pytest.mark.parametrize("source", [PADDED, UNPADDED], ids=["padded", "unpadded"])
@pytest.mark.parametrize("follows", [True, False], ids=["follow", "reorder"])
@torch.no_grad()
def test_steps_equal_the_whole_forward_pass(source: Tensor, follows: bool) -> None:
    """K beams, after one with `follow`, over several removals of unseen nodes; some are continued
    twice, some never; sentences end. Breaks if a step has the wrong position, a beam sees a node of
    another or loses one of its own, the mask does not stay with its sentence, or something is kept
    on modules, where another search would change it."""
    model = transformer()
    state, other = start(model, source), start(model, PADDED)
    beams = 1 if follows else K
    history = torch.full((len(source) * beams, 1), 2)
    for step in range(4 * STEPS_OF_ROOM):
        assert state.length == step
        model.decoder.step(torch.randint(4, V, (3, 1)), other)
        features = model.decoder.step(history[:, -1:], state)
        assert features.shape == (len(history), 1, DIMENSIONS.d_model)
        torch.testing.assert_close(features[:, 0], whole(model, source, history))
        B = len(source)
        if follows:  # every fifth time, every beam continues the first
            parents = torch.randint(beams if step % 5 else 1, (B, K))
            state.follow(parents)
        else:  # the number of beams stays
            parents = torch.randint(beams, (B, beams))
            state.reorder_beams((parents + beams * torch.arange(B)[:, None]).flatten())
        history = history[(parents + beams * torch.arange(B)[:, None]).flatten()]
        beams = parents.size(1)
        if step in (3, 19):  # the first of the sentences is done
            source, history = source[1:], history[beams:]
            state.keep_sources(torch.arange(1, B))
            state.reorder_beams(torch.arange(beams, B * beams))
        history = torch.cat([history, torch.randint(4, V, (len(history), 1))], dim=1)


@torch.no_grad()
def test_what_no_beam_has_seen_is_not_kept_and_nothing_is_copied() -> None:
    """Breaks if memory grows with beams times length although all beams share one history, or if
    following moves keys and values."""
    model = transformer()
    state = start(model, PADDED)
    steps = 5 * STEPS_OF_ROOM
    for _ in range(steps):
        model.decoder.step(torch.full((len(PADDED) * K, 1), 4), state)
        before = [layer.self_K for layer in state.layers]
        state.follow(torch.zeros(len(PADDED), K, dtype=torch.long))
        assert all(layer.self_K is K for layer, K in zip(state.layers, before, strict=True))
    assert state.length == steps
    assert state.capacity <= steps + 2 * K * STEPS_OF_ROOM < steps * K


@torch.no_grad()
def test_a_step_projects_the_newest_token_and_no_source(monkeypatch: pytest.MonkeyPatch) -> None:
    """Breaks if the memory is projected again at every step or for every beam, or a step computes
    the whole history again."""
    monkeypatch.setattr(cpu_kernels, "fits_onednn", lambda *_: False)  # whose FLOPs nobody counts
    model, (N, d_model, d_ff, h, d_k, d_v) = transformer(), astuple(DIMENSIONS)[:6]
    state = start(model, PADDED)
    own, cross = d_model * h * (2 * d_k + 2 * d_v), d_model * h * (d_k + d_v)
    for _ in range(3):
        with FlopCounterMode(display=False) as counter:
            model.decoder.step(torch.full((3 * K, 1), 2), state)
        products = counter.get_flop_counts()["Global"]
        matrices = products[torch.ops.aten.mm] + products[torch.ops.aten.addmm]
        assert matrices == 2 * 3 * K * N * (own + cross + 2 * d_model * d_ff)
        state.reorder_beams(torch.arange(3 * K))

"""Decoding token by token equals the full forward pass, whatever the search does with its beams."""

from dataclasses import astuple

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from fairseq_aiayn.nn import cpu_kernels
from fairseq_aiayn.nn.decoder_state import STEPS_OF_ROOM, DecoderState
from fairseq_aiayn.nn.dimensions import Dimensions
from fairseq_aiayn.nn.transformer import Transformer, create_transformer, needed_mask

DIMENSIONS = Dimensions(N=2, d_model=8, d_ff=12, h=2, d_k=3, d_v=5, P_drop=0.1)
PAD, V, K = 1, 20, 3  # K beams per sentence
PADDED = torch.tensor([[4, 5, 6, 7, 2], [PAD, PAD, 8, 9, 2], [10, 2, PAD, PAD, PAD]])
UNPADDED = torch.tensor([[4, 5, 6], [7, 8, 2], [10, 11, 2]])


def transformer() -> Transformer:
    """A Transformer in float64, in evaluation mode."""
    torch.manual_seed(5)
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

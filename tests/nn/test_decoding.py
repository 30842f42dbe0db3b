"""Decoding token by token equals the full forward pass, whatever the search does with its beams."""

import pytest
import torch
from torch import Tensor, nn

from fairseq_aiayn.nn.attention import MultiHeadAttention
from fairseq_aiayn.nn.decoder_state import STEPS_OF_ROOM, DecoderState
from fairseq_aiayn.nn.layers import Dimensions
from fairseq_aiayn.nn.transformer import Transformer, create_transformer, needed_mask

DIMENSIONS = Dimensions(N=2, d_model=8, d_ff=12, h=2, d_k=3, d_v=5, P_drop=0.1)
PAD, V, K = 1, 20, 3  # K beams per sentence
PADDED = torch.tensor([[4, 5, 6, 7, 2], [PAD, PAD, 8, 9, 2], [10, 2, PAD, PAD, PAD]])
UNPADDED = torch.tensor([[4, 5, 6], [7, 8, 2], [10, 11, 2]])


def transformer(learned: bool = False) -> Transformer:
    """A Transformer in float64, in evaluation mode."""
    torch.manual_seed(5)
    lengths = (40, 40) if learned else None
    return create_transformer(DIMENSIONS, V, V, PAD, learned_lengths=lengths).double().eval()


def encode(model: Transformer, source: Tensor) -> tuple[Tensor, Tensor | None]:
    """The memory of a batch and its mask."""
    mask = needed_mask(source, PAD)
    return model.encode(source, mask), mask


def whole(model: Transformer, source: Tensor, history: Tensor) -> Tensor:
    """Features of the last token of every beam's history [B·k, T] from a full forward pass:
    [B·k, d_model]."""
    memory, mask = encode(model, source.repeat_interleave(len(history) // len(source), dim=0))
    return model.decoder(history, memory, mask)[:, -1]


@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize("source", [PADDED, UNPADDED], ids=["padded", "unpadded"])
@torch.no_grad()
def test_steps_equal_the_whole_forward_pass(source: Tensor, learned: bool) -> None:
    """Breaks if a step has the wrong position, beams are mixed across sentences, the mask is lost,
    or a reordered or removed beam keeps the keys and values of another."""
    model = transformer(learned)
    state = model.decoder.start(*encode(model, source))
    history = torch.full((len(source) * K, 1), 2)
    for step in range(6):
        assert state.length == step
        features = model.decoder.step(history[:, -1:], state)
        assert features.shape == (len(history), 1, DIMENSIONS.d_model)
        torch.testing.assert_close(features[:, 0], whole(model, source, history))
        if step == 2:  # the first sentence is done
            source, history = source[1:], history[K:]
            state.keep_sources(torch.tensor([1, 2]))
            state.reorder_beams(torch.arange(K, 3 * K))
        # Each beam continues a beam of its own sentence; some are continued twice and some never
        parents = torch.randint(K, (len(source), K)) + K * torch.arange(len(source))[:, None]
        history = history[parents.flatten()]
        state.reorder_beams(parents.flatten())
        history = torch.cat([history, torch.randint(4, V, (len(history), 1))], dim=1)


@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize("source", [PADDED, UNPADDED], ids=["padded", "unpadded"])
@torch.no_grad()
def test_a_search_longer_than_the_first_room_equals_the_whole_forward_pass(
    source: Tensor, learned: bool
) -> None:
    """One beam, then K, over several removals of unseen nodes. Breaks if a beam sees a node of
    another beam, loses one of its own, or if the removal does not fit the mask or the sentences."""
    model = transformer(learned)
    state = model.decoder.start(*encode(model, source))
    history, beams = torch.full((len(source), 1), 2), 1
    for step in range(4 * STEPS_OF_ROOM):
        features = model.decoder.step(history[:, -1:], state)
        torch.testing.assert_close(features[:, 0], whole(model, source, history))
        B = len(source)
        parents = torch.randint(beams, (B, K))
        if step % 5 == 0:  # every beam continues the first
            parents = torch.zeros_like(parents)
        state.follow(parents)
        history = history[(parents + beams * torch.arange(B)[:, None]).flatten()]
        beams = K
        if step in (3, 19):  # the first of the sentences is done
            source, history = source[1:], history[K:]
            state.keep_sources(torch.arange(1, B))
            state.reorder_beams(torch.arange(K, B * K))
        history = torch.cat([history, torch.randint(4, V, (len(history), 1))], dim=1)


@torch.no_grad()
def test_what_no_beam_has_seen_is_not_kept() -> None:
    """Breaks if memory grows with beams times length although all beams share one history."""
    model = transformer()
    state = model.decoder.start(*encode(model, PADDED))
    steps = 5 * STEPS_OF_ROOM
    for _ in range(steps):
        model.decoder.step(torch.full((len(PADDED) * K, 1), 4), state)
        state.follow(torch.zeros(len(PADDED), K, dtype=torch.long))
    assert state.length == steps
    assert state.capacity <= steps + 2 * K * STEPS_OF_ROOM < steps * K


@torch.no_grad()
def test_following_copies_no_keys_and_values() -> None:
    """Breaks if reordering beams moves keys and values."""
    model = transformer()
    state = model.decoder.start(*encode(model, PADDED))
    model.decoder.step(torch.full((len(PADDED) * K, 1), 4), state)
    before = [(layer.self_K, layer.self_K.clone()) for layer in state.layers]
    state.follow(torch.randint(K, (len(PADDED), K)))
    for layer, (same, value) in zip(state.layers, before, strict=True):
        assert layer.self_K is same
        torch.testing.assert_close(layer.self_K, value, equal_nan=True)


@torch.no_grad()
def test_sentences_may_be_repeated_and_reordered() -> None:
    """fairseq's own search treats every beam as a sentence. Breaks if the mask stays in the old
    order."""
    model = transformer()
    state = model.decoder.start(*encode(model, PADDED))
    model.decoder.step(torch.full((3, 1), 2), state)
    order = torch.tensor([2, 2, 0])
    state.keep_sources(order)
    state.reorder_beams(order)
    features = model.decoder.step(torch.tensor([[5], [6], [7]]), state)
    memory, mask = encode(model, PADDED[order])
    expected = model.decoder(torch.tensor([[2, 5], [2, 6], [2, 7]]), memory, mask)[:, -1:]
    torch.testing.assert_close(features, expected)


@torch.no_grad()
def test_the_source_is_projected_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Breaks if the keys and values of the memory are computed again at every step or for every
    beam."""
    model = transformer()
    rows: list[int] = []
    keys_values = MultiHeadAttention.keys_values

    def counted(attention: MultiHeadAttention, memory: Tensor) -> tuple[Tensor, Tensor]:
        rows.append(len(memory))
        return keys_values(attention, memory)

    monkeypatch.setattr(MultiHeadAttention, "keys_values", counted)
    state = model.decoder.start(*encode(model, PADDED))
    for _ in range(4):
        model.decoder.step(torch.full((3 * K, 1), 2), state)
        state.reorder_beams(torch.arange(3 * K))
    assert rows == [len(PADDED)] * DIMENSIONS.N


@torch.no_grad()
def test_a_step_projects_only_the_newest_token() -> None:
    """Breaks if a step computes the whole history again."""
    model = transformer()
    lengths: list[int] = []
    for layer in model.decoder.layers:
        layer.self_attention.W_QKV.register_forward_hook(
            lambda module, arguments, output: lengths.append(output.size(1))
        )
    state = model.decoder.start(*encode(model, UNPADDED))
    for _ in range(3):
        model.decoder.step(torch.full((3, 1), 2), state)
    assert lengths == [1] * (3 * DIMENSIONS.N)


def attributes(model: nn.Module) -> dict[str, dict[str, int]]:
    """The attributes of all modules, by identity."""
    return {
        name: {key: id(value) for part in (vars(m), m._buffers) for key, value in part.items()}
        for name, m in model.named_modules()
    }


@torch.no_grad()
def test_nothing_is_kept_on_modules() -> None:
    """Breaks if a module holds a cache, so that two searches on one model disturb each other."""
    model = transformer()
    model.decoder(PADDED, *encode(model, PADDED))  # computes the sinusoids, which are no state
    before = attributes(model)
    states: list[DecoderState] = [
        model.decoder.start(*encode(model, source)) for source in (PADDED, UNPADDED)
    ]
    first, second = (torch.full((3, 1), token) for token in (2, 9))
    features = []
    for tokens in (first, second):  # two searches, step by step in turn
        features = [model.decoder.step(tokens, state) for state in states]
    assert attributes(model) == before
    history = torch.cat([first, second], dim=1)
    for source, last in zip((PADDED, UNPADDED), features, strict=True):
        expected = model.decoder(history, *encode(model, source))[:, -1:]
        torch.testing.assert_close(last, expected)

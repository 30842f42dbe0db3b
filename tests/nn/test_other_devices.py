"""The model, its loss and its search on devices without values: meta, and a GPU's fake tensors.

An operation that creates a tensor on the CPU, or reads a value, fails there. A mask needs values to
know whether there is padding, so these tests use no masks.
"""

from collections.abc import Callable, Iterator

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from fairseq_aiayn.decoding.beam_search import (
    ActiveSentences,
    AllowedTokens,
    Search,
    Symbols,
    best_tokens,
)
from fairseq_aiayn.decoding.hypotheses import Finished, History
from fairseq_aiayn.nn.decoder_state import STEPS_OF_ROOM
from fairseq_aiayn.nn.layers import Dimensions, positions
from fairseq_aiayn.nn.transformer import Transformer, create_transformer
from fairseq_aiayn.training import ProjectedSmoothedNLL, smoothed_nll

B, S, T, V, k, PAD, END = 3, 5, 4, 17, 2, 1, 2
DIMENSIONS = Dimensions(N=2, d_model=8, d_ff=12, h=2, d_k=3, d_v=5, P_drop=0.25)


@pytest.fixture(params=["meta", "cuda"])
def device(request: pytest.FixtureRequest) -> Iterator[str]:
    """Tensors on the meta device, or tensors that PyTorch takes to be on a GPU."""
    if request.param == "meta":
        yield "meta"
    elif not torch.version.cuda:
        pytest.skip("fake tensors of a GPU need a PyTorch that is built for CUDA")
    else:
        with FakeTensorMode():
            yield "cuda"


@pytest.fixture
def transformer(device: str) -> Transformer:
    with torch.device(device):
        return create_transformer(DIMENSIONS, V, V, PAD)


@pytest.fixture
def tokens(device: str) -> Callable[..., torch.Tensor]:
    """Return a function that makes tokens of a shape."""
    return lambda *shape: torch.zeros(shape, dtype=torch.long, device=device)


def test_a_training_step(transformer, tokens, device):
    source = tokens(B, S)
    memory = transformer.encoder(source, positions(source, PAD), None)
    x = transformer.decoder(tokens(B, T), memory, None).flatten(0, 1)
    E = transformer.decoder.projection.weight
    log_p = transformer.decoder.projection.project(x).log_softmax(dim=-1)
    plain, _ = smoothed_nll(log_p, tokens(B * T), 0.1, PAD)
    fast, _ = ProjectedSmoothedNLL.apply(x, E, tokens(B * T), 0.1, torch.bfloat16, True)
    assert (plain + fast).device.type == device
    if device == "meta":  # autograd asks for a GPU's driver
        (plain + fast).backward()
        for parameter in transformer.parameters():
            assert parameter.grad.is_meta and parameter.grad.shape == parameter.shape


@torch.no_grad()
def test_steps_of_a_search(transformer, tokens, device):
    """Too few steps for a removal of unseen nodes, which needs their number."""
    transformer.eval()
    decoder, symbols, options = transformer.decoder, Symbols(END, PAD), Search(k, 0.6, 50)
    source = tokens(B, S)
    state = decoder.start(transformer.encoder(source, positions(source, PAD), None), None)
    search = ActiveSentences.at_start(Finished.none(B, 1, source.device), END)
    history = History(T, B, k, source.device)
    assert T < STEPS_OF_ROOM
    for step in range(T):
        log_p = decoder.projection.project(decoder.step(search.newest, state)[:, 0])
        allowed = AllowedTokens(symbols, step == 0, tokens(B))
        best = best_tokens([log_p.log_softmax(dim=-1)], allowed, k + 1, search.log_p.size(1))
        written = search.advance(*best, step, END, options)
        history.write(step, search.sentences, written)
        state.follow(written.parent)
    done = search.done(tokens(B), options)
    assert done.device.type == device and done.shape == (B,)
    for layer in state.layers:
        assert {layer.self_K.device.type, layer.memory_V.device.type} == {device}

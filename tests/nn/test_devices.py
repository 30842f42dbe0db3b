"""What depends on the device gives the same everywhere; model, loss and search run on devices
without values, meta and a GPU's fake tensors, where an operation fails that creates a tensor on the
CPU or reads a value."""

from collections.abc import Iterator

import pytest
import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensorMode

from fairseq_aiayn.decoding.beam_search import (
    ActiveSentences,
    AllowedTokens,
    Search,
    Symbols,
    best_tokens,
)
from fairseq_aiayn.decoding.hypotheses import Finished, History
from fairseq_aiayn.nn import cpu_kernels
from fairseq_aiayn.nn.cpu_kernels import fits_onednn, rows_of_logits, vocabulary_product
from fairseq_aiayn.nn.layers import Dimensions
from fairseq_aiayn.nn.transformer import create_transformer, padding_mask
from fairseq_aiayn.training import ProjectedSmoothedNLL, smoothed_nll

B, S, T, V, k, PAD, END = 3, 5, 4, 17, 2, 1, 2
DIMENSIONS = Dimensions(N=2, d_model=8, d_ff=12, h=2, d_k=3, d_v=5, P_drop=0.25)


@pytest.fixture(params=["meta", "cuda"])
def device(request: pytest.FixtureRequest) -> Iterator[str]:
    """The device of new tensors: meta, or what PyTorch takes to be a GPU."""
    if request.param == "cuda" and not torch.version.cuda:
        pytest.skip("fake tensors of a GPU need a PyTorch that is built for CUDA")
    with FakeTensorMode(), torch.device(request.param):
        yield request.param


def test_a_training_step(device: str) -> None:
    model, tokens = create_transformer(DIMENSIONS, V, V, PAD), torch.zeros(B, T, dtype=torch.long)
    mask = padding_mask(tokens, PAD)
    x = model.decoder(tokens, model.encode(tokens, mask), mask).flatten(0, 1)
    log_p = model.decoder.projection.project(x).log_softmax(dim=-1)
    plain, _ = smoothed_nll(log_p, tokens.flatten(), 0.1, PAD)
    E = model.decoder.projection.weight
    fast, _ = ProjectedSmoothedNLL.apply(x, E, tokens.flatten(), 0.1, torch.bfloat16, True)
    assert (plain + fast).device.type == device
    if device == "meta":  # autograd asks for a GPU's driver
        (plain + fast).backward()
        assert all(p.grad.shape == p.shape for p in model.parameters())


@torch.no_grad()
def test_steps_of_a_search(device: str) -> None:
    """Too few steps for a removal of unseen nodes, which needs their number."""
    model, source = create_transformer(DIMENSIONS, V, V, PAD), torch.zeros(B, S, dtype=torch.long)
    mask, options = padding_mask(source, PAD), Search(k, 0.6, 50)
    state = model.decoder.start(model.encode(source, mask), mask)
    active = ActiveSentences.at_start(Finished.none(B, 1, source.device), END)
    history = History(T, B, k, source.device)
    for step in range(T):
        log_p = model.decoder.projection.project(model.decoder.step(active.newest, state)[:, 0])
        allowed = AllowedTokens(Symbols(END, PAD), step == 0, source[:, 0])
        best = best_tokens([log_p.log_softmax(dim=-1)], allowed, k + 1, active.log_p.size(1))
        new = active.advance(*best, step, END, options)
        history.write(step, active.sentences, new)
        state.follow(new.parent)
    done = active.done(source[:, 0], options)
    assert done.device.type == device and done.shape == (B,)
    assert {layer.self_K.device.type for layer in state.layers} == {device}


def test_the_product_with_a_vocabulary_is_the_plain_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of tensors of any layout. Breaks if a gradient is lost, or if autocast's bfloat16 is not
    used."""
    torch.manual_seed(1)
    E, x = torch.randn(97, 16), torch.randn(3, 5, 16)
    learned = x.clone().requires_grad_()
    vocabulary_product(learned, E).sum().backward()
    torch.testing.assert_close(learned.grad, E.sum(dim=0).expand_as(x))
    with torch.no_grad():
        for part in (x, x[0], x[0, 0], x[:0], x.transpose(0, 1)[:, :2], x[:, ::2]):
            assert fits_onednn(part, E)
            torch.testing.assert_close(vocabulary_product(part, E), F.linear(part, E))
        assert not fits_onednn(x.double(), E.double())
        assert not fits_onednn(x.to("meta"), E.to("meta"))
        with torch.autocast("cpu", torch.bfloat16):
            assert vocabulary_product(x, E).dtype == torch.bfloat16
        monkeypatch.setattr(cpu_kernels.torch.backends.mkldnn, "is_available", lambda: False)
        assert not fits_onednn(x, E)


def test_rows_of_logits_fit_the_budget_of_a_device() -> None:
    """At least one row; a device without a budget takes that of a GPU."""
    E = torch.empty(10, 4)
    assert [rows_of_logits({"cpu": n, "cuda": 90}, E) for n in (9, 39, 40)] == [1, 3, 4]
    assert rows_of_logits({"cpu": 40, "cuda": 90}, E.to("meta")) == 9

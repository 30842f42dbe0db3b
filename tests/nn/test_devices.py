"""What depends on the device gives the same everywhere; model, loss and search run on the device
meta, where an operation fails that creates a tensor on the CPU or reads a value."""

import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F

from fairseq_aiayn.decoding.beam_search import (
    ActiveSentences,
    AllowedTokens,
    Search,
    Symbols,
    best_tokens,
)
from fairseq_aiayn.decoding.hypotheses import Finished, History
from fairseq_aiayn.nn import cpu_kernels
from fairseq_aiayn.nn.attention import attention, causal_mask, fused_attention
from fairseq_aiayn.nn.cpu_kernels import fits_onednn, linear
from fairseq_aiayn.nn.dimensions import Dimensions
from fairseq_aiayn.nn.transformer import create_transformer, padding_mask
from fairseq_aiayn.training import ProjectedSmoothedNLL, smoothed_nll

B, S, T, V, k, PAD, END = 3, 5, 4, 17, 2, 1, 2
DIMENSIONS = Dimensions(N=2, d_model=8, d_ff=12, h=2, d_k=3, d_v=5, P_drop=0.25)


@pytest.fixture
def meta():
    with torch.device("meta"):
        yield


def test_a_training_step(meta):
    model, tokens = create_transformer(DIMENSIONS, V, V, PAD), torch.zeros(B, T, dtype=torch.long)
    mask = padding_mask(tokens, PAD)
    x = model.decoder(tokens, model.encode(tokens, mask), mask).flatten(0, 1)
    log_p = model.decoder.projection.project(x).log_softmax(dim=-1)
    plain, _ = smoothed_nll(log_p, tokens.flatten(), 0.1, PAD)
    E = model.decoder.projection.weight
    fast, _ = ProjectedSmoothedNLL.apply(x, E, tokens.flatten(), 0.1, torch.bfloat16, True)
    (plain + fast).backward()
    assert all(p.grad.shape == p.shape for p in model.parameters())


@torch.no_grad()
def test_steps_of_a_search(meta):
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
    assert done.device.type == "meta" and done.shape == (B,)
    assert {layer.self_K.device.type for layer in state.layers} == {"meta"}


@pytest.mark.parametrize(
    ("dtype", "trains"), [(torch.float32, True), (torch.bfloat16, True), (torch.bfloat16, False)]
)
@pytest.mark.parametrize("legal", ["everything", "no padding", "the past"])
def test_attention_is_equation_1(dtype, trains, legal):
    """Breaks with another scale, polarity of the mask or causality, in PyTorch's kernel or where a
    CPU computes the equation as written: in bfloat16 with gradients. tests/paper has the heads."""
    torch.manual_seed(0)
    Q, K, V = (torch.randn(2, 3, T, n, dtype=dtype) for n in (6, 6, 2))
    padding = torch.tensor([[True] * T, [False, True, True, False]])[:, None, None]
    causal, mask = legal == "the past", padding if legal == "no padding" else None
    expected = attention(Q, K, V, causal_mask(T) if causal else mask)
    with torch.set_grad_enabled(trains):
        found = fused_attention(Q, K, V, mask, causal, 0.0)
    torch.testing.assert_close(found, expected, rtol=0.02, atol=0.02)


def test_a_product_by_onednn_is_the_plain_one(monkeypatch):
    """Of tensors of any layout, with its gradients, and in autocast's bfloat16."""
    monkeypatch.setattr(cpu_kernels, "mkl_is_slow", lambda: True)
    x, W, b = torch.randn(3, 5, 16), torch.randn(97, 16), torch.randn(97)
    near = {"rtol": 1e-5, "atol": 1e-5}  # gradients are sums of 97 products of about 10
    for part in (x, x[0, 0], x.transpose(0, 1)[:, :2], x[:, ::2]):
        for given in ((part, W), (part, W, b)):
            found, expected = ([t.clone().requires_grad_() for t in given] for _ in range(2))
            pairs = ((linear, found), (F.linear, expected))
            ours, plain = (product(*tensors) for product, tensors in pairs)
            assert type(ours.grad_fn).__name__ == "OneDNNLinearBackward"
            ours.square().sum().backward()
            plain.square().sum().backward()
            torch.testing.assert_close(ours, plain)
            for tensor, other in zip(found, expected, strict=True):
                torch.testing.assert_close(tensor.grad, other.grad, **near)
            with torch.no_grad():
                torch.testing.assert_close(linear(*given), F.linear(*given))
    for other in (x.double(), x.to("meta"), x[:0]):
        assert not fits_onednn(other, W.to(other))
    with torch.autocast("cpu", torch.bfloat16):
        assert linear(x, W).dtype == torch.bfloat16
    torch._C._set_mkldnn_enabled(False)
    try:
        assert not fits_onednn(x, W)
    finally:
        torch._C._set_mkldnn_enabled(True)


SHAPES = """
import torch
from fairseq_aiayn.nn import cpu_kernels
cpu_kernels.mkl_is_slow = lambda: True
W = torch.randn(512, 256, requires_grad=True)
def pages(): return int(open("/proc/self/statm").read().split()[1])
def update(n): cpu_kernels.linear(torch.randn(n, 256), W).sum().backward()
for _ in range(5): update(700)
before = pages()
for n in range(200, 700): update(n)
print((pages() - before) * 4096 // 2**20)
"""


def test_products_of_many_shapes_take_no_more_memory():
    """Breaks if oneDNN keeps something for each of them: 1,185 MiB for these 500."""
    grown = subprocess.run(
        [sys.executable, "-c", SHAPES], capture_output=True, text=True, check=True
    )
    assert int(grown.stdout) < 300

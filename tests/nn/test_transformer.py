"""Section 3: layers, the Transformer, its decoding token by token; dropout (5.4), initial weights.
tests/paper compares outputs and gradients with the equations."""

import math
import subprocess
import sys
from dataclasses import astuple, replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from fairseq_aiayn.nn import attention as attention_module
from fairseq_aiayn.nn import cpu_kernels
from fairseq_aiayn.nn.attention import (
    MultiHeadAttention,
    attention,
    barred_connections,
    causal_mask,
    fused_attention,
)
from fairseq_aiayn.nn.cpu_kernels import fits_onednn, linear, products_in
from fairseq_aiayn.nn.decoder_state import STEPS_OF_ROOM, DecoderState
from fairseq_aiayn.nn.dimensions import Dimensions
from fairseq_aiayn.nn.initialization import INITIALIZATIONS
from fairseq_aiayn.nn.layers import (
    LONGEST_SINUSOIDS,
    Dropout,
    FeedForward,
    SinusoidalPositions,
    sinusoids,
)
from fairseq_aiayn.nn.products import Faster
from fairseq_aiayn.nn.transformer import Transformer, create_transformer, needed_mask, padding_mask

DIMENSIONS = Dimensions(N=2, d_model=8, d_ff=12, h=2, d_k=3, d_v=5, P_drop=0.25)
PAD, V, K = 1, 20, 3  # K beams per sentence
PADDED = torch.tensor([[4, 5, 6, 7, 2], [PAD, PAD, 8, 9, 2], [10, 2, PAD, PAD, PAD]])
UNPADDED = torch.tensor([[4, 5, 6], [7, 8, 2], [10, 11, 2]])


@pytest.fixture(autouse=True)
def seed() -> None:
    """The same weights and words, in whatever order the tests run."""
    torch.manual_seed(3)


def words(*size: int) -> Tensor:
    return torch.randint(4, V, size)


def test_a_mask_is_needed_where_something_is_padding() -> None:
    """Breaks if the fast path is lost: torch's fastest kernels take no mask."""
    padded, whole = torch.tensor([[4, 5, PAD], [4, 5, 6]]), words(2, 3)
    assert padding_mask(padded, PAD)[:, 0, 0].tolist() == [[True, True, False], [True] * 3]
    assert torch.equal(needed_mask(padded, PAD), padding_mask(padded, PAD))
    assert needed_mask(whole, PAD) is None
    model = create_transformer(DIMENSIONS, V, V, PAD).eval()
    masked = model.encode(whole, padding_mask(whole, PAD))
    torch.testing.assert_close(model.encode(whole, None), masked)


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


def test_impossible_shapes_are_refused() -> None:
    """Breaks if a Transformer without layers, or one that drops everything, is built."""
    for field, value in (("N", 0), ("d_v", 0), ("P_drop", 1.0), ("attention_dropout", -0.1)):
        with pytest.raises(ValueError, match=rf"{field} must be .*, got {value}"):
            replace(DIMENSIONS, **{field: value})
    with pytest.raises(ValueError, match="one joined vocabulary; got 27 source and 20 target"):
        create_transformer(DIMENSIONS, V + 7, V, PAD)


def transformer() -> Transformer:
    return create_transformer(DIMENSIONS, V, V, PAD).double().eval()


def start(model: Transformer, source: Tensor) -> DecoderState:
    mask = needed_mask(source, PAD)
    return model.decoder.start(model.encode(source, mask), mask)


def whole(model: Transformer, source: Tensor, history: Tensor) -> Tensor:
    """Features [B·k, d_model] of the last token of every history [B·k, T], computed whole."""
    source = source.repeat_interleave(len(history) // len(source), dim=0)
    mask = needed_mask(source, PAD)
    return model.decoder(history, model.encode(source, mask), mask)[:, -1]


@pytest.mark.parametrize("source", [PADDED, UNPADDED], ids=["padded", "unpadded"])
@pytest.mark.parametrize("follows", [True, False], ids=["follow", "reorder"])
@torch.no_grad()
def test_steps_equal_the_whole_forward_pass(source: Tensor, follows: bool) -> None:
    """Breaks if a step has the wrong position, a beam sees a node of another or loses one, a mask
    leaves its sentence, or something is kept on modules, where another search would change it."""
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
    """Breaks if memory grows with beams times length, or if following moves keys and values."""
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
    """Breaks if a step projects the memory again, or computes the whole history again."""
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


SOURCE, TARGET = torch.tensor([[4, 5, 6, 2]]), torch.tensor([[2, 7, 8]])


@pytest.mark.parametrize("attention_dropout", [0.0, 0.4])
def test_exactly_the_tensors_of_section_5_4(monkeypatch, attention_dropout):
    """Breaks if dropout is elsewhere than on embedding sums and outputs of sub-layers, or if
    attention weights are dropped without being asked for, as in section 6.3, or with P_drop."""
    dropped, rates, expected = [], [], []
    fused, drop = attention_module.fused_attention, Dropout.forward

    def dropout(module: Dropout, x: Tensor) -> Tensor:
        dropped.append((x, module.p if drop(module, x) is not x else 0.0))
        return x

    def attend(*arguments: Tensor | bool | float | None) -> Tensor:
        rates.append(arguments[-1])
        return fused(*arguments[:-1], 0.0)

    monkeypatch.setattr(Dropout, "forward", dropout)
    monkeypatch.setattr(attention_module, "fused_attention", attend)
    sizes = replace(DIMENSIONS, attention_dropout=attention_dropout)
    model = create_transformer(sizes, 10, 10, padding=1)
    for module in model.modules():
        if isinstance(module, MultiHeadAttention | FeedForward):
            module.register_forward_hook(lambda module, inputs, output: expected.append(output))
    model(SOURCE, TARGET)
    for index, stack, tokens in ((0, model.encoder, SOURCE), (5, model.decoder, TARGET)):
        n = tokens.size(1)
        expected.insert(index, stack.embedding(tokens) + stack.position(torch.arange(n), n))
    assert len(dropped) == len(expected) == (1 + 2 * DIMENSIONS.N) + (1 + 3 * DIMENSIONS.N)
    for (x, rate), tensor in zip(dropped, expected, strict=True):
        assert rate == DIMENSIONS.P_drop
        torch.testing.assert_close(x, tensor)
    dropped.clear()
    model.eval()(SOURCE, TARGET)
    assert {rate for _, rate in dropped} == {0.0}
    assert rates == [attention_dropout] * (3 * DIMENSIONS.N) + [0.0] * (3 * DIMENSIONS.N)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_dropped_attention_weights_are_0_and_the_others_larger(dtype):
    """With Q = 0 all weights are equal, and with V the identity the output is the weights."""
    torch.manual_seed(0)
    Q, V = torch.zeros(1, 1, 4000, 4, dtype=dtype), torch.eye(4, dtype=dtype)[None, None]
    weights = fused_attention(Q, V, V, None, False, 0.2)
    kept = weights.ne(0)
    torch.testing.assert_close(weights[kept], torch.full_like(weights[kept], 0.25 / 0.8))
    assert abs(kept.double().mean() - 0.8) < 4 * math.sqrt(0.2 * 0.8 / weights.numel())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_dropout_drops_and_scales_every_element_by_itself(dtype):
    """Breaks if another share is dropped, what is kept is scaled otherwise (rounding 1/0.9 to
    bfloat16 alone makes it 0.16% too small), or neighbours that share random bits go together."""
    torch.manual_seed(0)
    n, p = 1_000_001, 0.1  # odd: the last element has a draw of its own
    x = (1.0 + torch.rand(n)).to(dtype).requires_grad_()
    y = Dropout(p)(x)
    kept = y.detach().ne(0)
    torch.testing.assert_close(y[kept], x[kept] / (1 - p))
    ratio = y[kept].double().sum() / x[kept].double().sum()
    assert abs(ratio * (1 - p) - 1) < 1e-4
    share, both = y.eq(0).double().mean(), y[:-1].view(-1, 2).eq(0).all(1).double().mean()
    assert abs(share - p) < 4 * math.sqrt(p * (1 - p) / n)
    assert abs(both - p * p) < 4 * math.sqrt(p * p / (n / 2))
    y.sum().backward()
    torch.testing.assert_close(x.grad, kept.to(dtype) / (1 - p))


# Large enough for the largest value to come within 3% of its bound
WIDE = Dimensions(N=1, d_model=64, d_ff=256, h=4, d_k=8, d_v=16, P_drop=0.1)
QK, VALUES = 4 * 8, 4 * 16


@pytest.mark.parametrize("scheme", INITIALIZATIONS)
def test_a_scheme_draws_what_its_implementation_draws(scheme):
    """Breaks if a matrix is drawn with another one's bound, W^Q with W^K and W^V or apart, or if
    words or learned positions do not have a standard deviation of d_model^−½."""
    torch.manual_seed(1)
    model = create_transformer(WIDE, 90, 90, 1, "all", (80, 80), initialization=scheme)
    for table in (model.encoder.embedding, model.encoder.position, model.decoder.position):
        assert table.weight.std().item() == pytest.approx(64**-0.5, rel=0.05)
    (encoder,), (decoder,) = model.encoder.layers, model.decoder.layers
    cross, own = decoder.cross_attention, (encoder.self_attention, decoder.self_attention)
    drawn = [(attention.W_O.weight, VALUES + 64) for attention in (*own, cross)]
    drawn += [(attention.W_QKV.weight, 64 + 2 * QK + VALUES) for attention in own]
    if scheme == "tensor2tensor":
        W_Q, W_KV = cross.W_QKV.weight.split([QK, QK + VALUES])
        drawn += [(W_Q, 64 + QK), (W_KV, 64 + QK + VALUES)]
    else:
        drawn += [(cross.W_QKV.weight, 64 + 2 * QK + VALUES)]
    for network in (encoder.feed_forward, decoder.feed_forward):
        if scheme == "fairseq":  # PyTorch's own: 1/√fan_in, for biases too
            drawn += [(network.W_1.weight, 6 * 64), (network.W_1.bias, 6 * 64)]
            drawn += [(network.W_2.weight, 6 * 256)]
            assert network.W_2.bias.any() and network.W_2.bias.abs().max() <= 1 / math.sqrt(256)
        else:
            drawn += [(network.W_1.weight, 64 + 256), (network.W_2.weight, 256 + 64)]
            assert not network.W_1.bias.any() and not network.W_2.bias.any()
    for values, fans in drawn:  # Glorot's uniform distribution
        bound = math.sqrt(6 / fans)
        assert 0.97 * bound < values.abs().max() <= bound
        assert values.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.05)


def test_sinusoids_of_a_model_are_no_part_of_its_checkpoint():
    position = SinusoidalPositions(6)
    assert not position.state_dict() and not list(position.parameters())
    pos = torch.tensor([[0, 3], [9, LONGEST_SINUSOIDS - 1]])
    assert torch.equal(position(pos, LONGEST_SINUSOIDS), sinusoids(LONGEST_SINUSOIDS, 6)[pos])
    with pytest.raises(ValueError, match=f"end at length {LONGEST_SINUSOIDS}, got a sequence of"):
        position(pos, LONGEST_SINUSOIDS + 1)
    with pytest.raises(ValueError, match="d_model must be even, .*; got 7"):
        SinusoidalPositions(7)


@pytest.mark.parametrize(
    ("dtype", "trains"), [(torch.float32, True), (torch.bfloat16, True), (torch.bfloat16, False)]
)
@pytest.mark.parametrize("legal", ["everything", "no padding", "the past"])
def test_attention_is_equation_1(dtype, trains, legal):
    """In PyTorch's kernel, and where a CPU computes it as written: in bfloat16 with gradients."""
    torch.manual_seed(0)
    T = 4
    Q, K, V = (torch.randn(2, 3, T, n, dtype=dtype) for n in (6, 6, 2))
    padding = torch.tensor([[True] * T, [False, True, True, False]])[:, None, None]
    causal, mask = legal == "the past", padding if legal == "no padding" else None
    expected = attention(Q, K, V, causal_mask(T) if causal else mask)
    barred = None if mask is None else barred_connections(mask, Q)
    with torch.set_grad_enabled(trains):
        found = fused_attention(Q, K, V, barred, causal, 0.0)
    torch.testing.assert_close(found, expected, rtol=0.02, atol=0.02)


@pytest.mark.parametrize("of_weights", [True, False])
def test_a_product_by_onednn_is_the_plain_one(of_weights, monkeypatch):
    monkeypatch.setattr(cpu_kernels, "onednn_is_faster", lambda _: Faster(True, of_weights))
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
    with pytest.raises(ValueError, match="float16: expected a GPU"):
        products_in(torch.float16, x.device)
    torch._C._set_mkldnn_enabled(False)
    try:
        assert not fits_onednn(x, W)
    finally:
        torch._C._set_mkldnn_enabled(True)


SHAPES = """
import torch
from fairseq_aiayn.nn import cpu_kernels
from fairseq_aiayn.nn.kept_shapes import keep_few_shapes
from fairseq_aiayn.nn.products import Faster
keep_few_shapes()
cpu_kernels.onednn_is_faster = lambda _: Faster(True, True)
W = torch.randn(512, 256, requires_grad=True)
def pages(): return int(open("/proc/self/statm").read().split()[1])
def update(n): cpu_kernels.linear(torch.randn(n, 256), W).sum().backward()
for _ in range(5): update(700)
before = pages()
for n in range(200, 350): update(n)
print((pages() - before) * 4096 // 2**20)
"""


def test_products_of_many_shapes_take_no_more_memory():
    """Breaks if oneDNN keeps something for each of them: 303 MiB for these 150."""
    assert int(subprocess.check_output([sys.executable, "-c", SHAPES])) < 150

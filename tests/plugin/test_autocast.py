"""--autocast: matrix products in bfloat16, everything else as without it."""

import copy

import pytest
import torch
import torch.nn.functional as F
from building import dictionaries_task, dictionary, plain_model
from torch import Tensor

from fairseq_aiayn.nn.attention import attention, fused_attention
from fairseq_aiayn.nn.cpu_kernels import warn_if_slow
from fairseq_aiayn.nn.layers import Dimensions
from fairseq_aiayn.plugin.model import AiaynModel
from fairseq_aiayn.plugin.training import AiaynLabelSmoothedCrossEntropy

DIMENSIONS = Dimensions(N=2, d_model=16, d_ff=32, h=2, d_k=8, d_v=8, P_drop=0.0)
SOURCE, TARGET = torch.tensor([[1, 4, 5, 2], [6, 7, 5, 2]]), torch.tensor([[2, 5, 4], [2, 6, 7]])


def model(autocast: torch.dtype | None) -> AiaynModel:
    return plain_model(dictionary("abcd"), DIMENSIONS, autocast)


def test_products_are_taken_in_bfloat16_and_the_residual_stream_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Breaks if autocast does not reach the layers, or if sums and norms lose 16 bits, too."""
    linear, seen = F.linear, set()

    def recorded(x: Tensor, *arguments: Tensor) -> Tensor:
        y = linear(x, *arguments)
        seen.add((x.dtype, y.dtype))
        return y

    monkeypatch.setattr(F, "linear", recorded)
    features, _ = model(torch.bfloat16)(SOURCE, None, TARGET, features_only=True)
    assert features.dtype == torch.float32
    assert {of_product for _, of_product in seen} == {torch.bfloat16}
    seen.clear()
    model(None)(SOURCE, None, TARGET)
    assert {of_product for _, of_product in seen} == {torch.float32}


@pytest.mark.parametrize(("capability", "warnings"), [("AVX2", 1), ("AVX512", 0)])
def test_one_warning_where_bfloat16_is_slow(
    capability: str,
    warnings: int,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Breaks if a training that is 20 times slower than it need be says nothing, or says it for
    every batch, or where the CPU is fast."""
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    warn_if_slow.cache_clear()
    model(None)(SOURCE, None, TARGET)
    assert caplog.messages == []
    for _ in range(2):
        model(torch.bfloat16)(SOURCE, None, TARGET)
    assert len(caplog.messages) == warnings


def test_an_autocast_around_the_model_stays_on() -> None:
    """Breaks if fairseq's --amp, which is such an autocast, trains in float32 after all."""
    with torch.autocast("cpu", torch.bfloat16):
        logits, _ = model(None)(SOURCE, None, TARGET)
    assert logits.dtype == torch.bfloat16


@pytest.mark.parametrize(
    ("product_type", "projects"), [(torch.float16, False), (torch.bfloat16, True)]
)
def test_in_float16_the_loss_leaves_its_gradient_to_autograd(
    product_type: torch.dtype, projects: bool
) -> None:
    """Breaks if --amp computes a gradient before the loss is scaled: small values would be lost."""
    task = dictionaries_task(dictionary("abcd"))
    criterion = AiaynLabelSmoothedCrossEntropy(task, sentence_avg=False, label_smoothing=0.1)
    assert criterion.projects(model(None))
    with torch.autocast("cpu", product_type):
        assert criterion.projects(model(None)) is projects
    half = model(None).to(product_type)
    assert criterion.projects(half) is projects


def test_features_only_leaves_the_projection_out() -> None:
    """Breaks if the loss projects features that are already projected."""
    ours = model(None)
    features, _ = ours(SOURCE, None, TARGET, features_only=True)
    logits, _ = ours(SOURCE, None, TARGET)
    torch.testing.assert_close(ours.decoder.output_layer(features), logits)


@pytest.mark.parametrize("trains", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_attention_of_bfloat16_on_a_cpu_is_equation_1(causal: bool, trains: bool) -> None:
    """Breaks if more than the last bits of bfloat16 are lost, or if the result has another type."""
    torch.manual_seed(0)
    Q, K, V = (torch.randn(2, 2, 5, 8).bfloat16() for _ in range(3))
    mask = torch.ones(5, 5, dtype=torch.bool).tril() if causal else None
    expected = attention(Q.float(), K.float(), V.float(), mask).bfloat16()
    with torch.autocast("cpu", torch.bfloat16), torch.set_grad_enabled(trains):
        found = fused_attention(Q, K, V, None, causal, 0.0)
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found, expected, rtol=2**-6, atol=2**-7)


def test_a_copy_of_a_model_searches_with_its_own_weights() -> None:
    """Breaks if fairseq's moving average of a model, a copy, encodes with the model's weights."""
    ours = model(None)
    copied = copy.deepcopy(ours)
    with torch.no_grad():
        for parameter in copied.parameters():
            parameter.zero_()
    assert (
        not copied.transformer.encode(SOURCE, None).any()
        and not copied.encoder(SOURCE)["memory"].any()
    )
    assert ours.transformer.encode(SOURCE, None).any()
    assert {name.split(".")[0] for name in ours.state_dict()} == {"encoder", "decoder"}

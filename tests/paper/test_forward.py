"""The package's Transformer compared with a reference implementation of the paper: forward pass and
gradients."""

import pytest
import torch
from reference import Reference, sinusoid, smoothed_loss
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from fairseq_aiayn.nn.dimensions import Dimensions
from fairseq_aiayn.nn.layers import sinusoids
from fairseq_aiayn.nn.transformer import Sharing, Transformer, create_transformer
from fairseq_aiayn.training import smoothed_nll

# d_k, d_v and d_model / h all differ, and so do all sizes that a wrong implementation could confuse
DIMENSIONS = Dimensions(N=2, d_model=10, d_ff=13, h=3, d_k=5, d_v=2, P_drop=0.0)
PAD, V = 1, 9
SOURCES = [[4, 5, 6, 7, 2], [8, 2], [3, 3, 2]]
TARGETS = [[2, 4, 4], [2, 5, 6, 7, 8], [2]]  # shifted right: </s> first
LABELS = [[4, 4, 2], [5, 6, 7, 8, 2], [2]]
TOLERANCE = {"rtol": 1e-6, "atol": 1e-6}  # the package keeps its sinusoids in float32


def random_transformer(sharing: Sharing, V_source: int) -> Transformer:
    """A Transformer in float64 with all weights random, because initial gains of 1 and biases of 0
    would hide mistakes."""
    torch.manual_seed(1)
    model = create_transformer(DIMENSIONS, V_source, V, PAD, sharing).double()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.normal_(std=0.4).add_(1.0 if name.endswith("norm.weight") else 0.0)
    return model


def batch(sentences: list[list[int]], side: str) -> Tensor:
    """Sentences as one tensor [B, L], padded on the given side."""
    return pad_sequence([*map(torch.tensor, sentences)], True, PAD, side)


@pytest.mark.parametrize(
    ("sharing", "side"), [("all", "left"), ("target", "right"), ("none", "left")]
)
def test_logits_and_gradients_are_those_of_the_equations(sharing: Sharing, side: str) -> None:
    """Breaks with pre-norm, a final norm, 1/√d_model in place of 1/√d_k, concatenated sinusoids,
    positions counted from 1 or from the padding, a missing √d_model, mixed-up heads, biased
    projections, unmasked source padding or an anti-causal mask; and if a tied matrix loses one of
    its three gradients, a tensor is detached or padding enters the loss."""
    model = random_transformer(sharing, V_source=V if sharing == "all" else V + 3)
    logits = model(batch(SOURCES, side), batch(TARGETS, "right"))
    log_p, labels = logits.log_softmax(-1).flatten(0, 1), batch(LABELS, "right").flatten()
    loss, _ = smoothed_nll(log_p, labels, 0.1, PAD)
    loss.backward()
    weights = {name: w.detach().clone().requires_grad_() for name, w in model.named_parameters()}
    reference = Reference(weights, DIMENSIONS.N, DIMENSIONS.h)
    expected_loss = torch.zeros((), dtype=torch.float64)
    for row, source, target, labels in zip(logits, SOURCES, TARGETS, LABELS, strict=True):
        expected = reference.logits(source, target)
        torch.testing.assert_close(row[: len(target)], expected, **TOLERANCE)
        expected_loss = expected_loss + smoothed_loss(expected, labels, 0.1)
    expected_loss.backward()
    torch.testing.assert_close(loss, expected_loss, **TOLERANCE)
    for name, weight in model.named_parameters():
        gradient = reference.weights[name].grad
        assert gradient.abs().max() > 1e-3, f"{name}: nothing to compare"
        torch.testing.assert_close(
            weight.grad, gradient, **TOLERANCE, msg=lambda m, n=name: f"{n}: {m}"
        )


def test_sinusoids_are_exact_far_out() -> None:
    """Breaks if angles are computed in float32: at position 30,011 they are off by 1e-3."""
    table = sinusoids(30_012, 16)
    for pos in (0, 1, 2, 30_011):
        torch.testing.assert_close(table[pos], sinusoid(pos, 16).float(), rtol=0.0, atol=1e-6)

"""The package's Transformer compared with a reference that is written only from the equations of
section 3: one sentence at a time, without padding. Vectors are rows; nn.Linear has W transposed."""

import math
from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from fairseq_aiayn.nn.dimensions import Dimensions
from fairseq_aiayn.nn.layers import sinusoids
from fairseq_aiayn.nn.transformer import Sharing, Transformer, create_transformer
from fairseq_aiayn.training import smoothed_nll


@dataclass(frozen=True)
class Reference:
    """Equations 1 and 2 and Figure 1, with the parameters of a Transformer."""

    weights: dict[str, Tensor]
    N: int
    h: int

    def logits(self, source: list[int], target: list[int]) -> Tensor:
        """Logits [T, V] of every position of the target, which is shifted right by one."""
        E_source = self.weights["encoder.embedding.weight"]
        E_target = self.weights.get("decoder.embedding.weight", E_source)  # section 3.4: the same
        E_output = self.weights.get("decoder.projection.weight", E_target)
        x = embed(source, E_source)
        for n in range(self.N):
            layer = f"encoder.layers.{n}"
            x = self.multi_head(x, x, f"{layer}.self_attention")
            x = self.feed_forward(x, f"{layer}.feed_forward")
        y = embed(target, E_target)
        for n in range(self.N):
            layer = f"decoder.layers.{n}"
            y = self.multi_head(y, y, f"{layer}.self_attention", causal=True)
            y = self.multi_head(y, x, f"{layer}.cross_attention")
            y = self.feed_forward(y, f"{layer}.feed_forward")
        return y @ E_output.T

    def add_and_norm(self, x: Tensor, out: Tensor, name: str) -> Tensor:
        """Section 3.1: LayerNorm(x + Sublayer(x))."""
        gain, bias = (self.weights[f"{name}_norm.norm.{part}"] for part in ("weight", "bias"))
        return F.layer_norm(x + out, gain.shape, gain, bias, eps=1e-6)

    def multi_head(self, x: Tensor, memory: Tensor, name: str, causal: bool = False) -> Tensor:
        """Section 3.2.2: Concat(head_1, …, head_h)W^O, head by head."""
        W_QKV, W_O = (self.weights[f"{name}.W_{part}.weight"].T for part in ("QKV", "O"))
        values = W_O.size(0)  # h·d_v; the rest of W_QKV is twice h·d_k
        keys = (W_QKV.size(1) - values) // 2
        W_Q, W_K, W_V = W_QKV.split([keys, keys, values], dim=1)
        parts = (W.chunk(self.h, dim=1) for W in (W_Q, W_K, W_V))
        heads = [
            attention(x @ W_Qi, memory @ W_Ki, memory @ W_Vi, causal)
            for W_Qi, W_Ki, W_Vi in zip(*parts, strict=True)
        ]
        return self.add_and_norm(x, torch.cat(heads, dim=1) @ W_O, name)

    def feed_forward(self, x: Tensor, name: str) -> Tensor:
        """Equation 2: max(0, xW_1 + b_1)W_2 + b_2."""
        parts = (f"{name}.W_{i}.{part}" for i in (1, 2) for part in ("weight", "bias"))
        W_1, b_1, W_2, b_2 = map(self.weights.get, parts)
        out = torch.maximum(torch.tensor(0.0), x @ W_1.T + b_1) @ W_2.T + b_2
        return self.add_and_norm(x, out, name)


def attention(Q: Tensor, K: Tensor, V: Tensor, causal: bool) -> Tensor:
    """Equation 1 for one head; section 3.2.3 if `causal`: query i attends to the keys 0 … i."""
    rows = []
    for i, query in enumerate(Q):
        seen = slice(i + 1) if causal else slice(None)
        e = torch.stack([(query * key).sum() / math.sqrt(len(key)) for key in K[seen]]).exp()
        rows.append(e / e.sum() @ V[seen])
    return torch.stack(rows)


def embed(tokens: list[int], E: Tensor) -> Tensor:
    """Sections 3.4 and 3.5: √d_model · E[token] + PE(position)."""
    d_model = E.size(1)
    PE = torch.stack([sinusoid(position, d_model) for position in range(len(tokens))])
    return math.sqrt(d_model) * E[tokens] + PE


def sinusoid(position: int, d_model: int) -> Tensor:
    """Section 3.5, number by number: sine at even and cosine at odd dimensions."""
    encoding = torch.zeros(d_model, dtype=torch.float64)
    for i in range(d_model // 2):
        angle = position / 10000 ** (2 * i / d_model)
        encoding[2 * i], encoding[2 * i + 1] = math.sin(angle), math.cos(angle)
    return encoding


# d_k, d_v and d_model / h all differ, and so do all sizes that a wrong implementation could confuse
DIMENSIONS = Dimensions(N=2, d_model=10, d_ff=13, h=3, d_k=5, d_v=2, P_drop=0.0)
PAD, V = 1, 9
SOURCES = [[4, 5, 6, 7, 2], [8, 2], [3, 3, 2]]
TARGETS = [[2, 4, 4], [2, 5, 6, 7, 8], [2]]  # shifted right: </s> first
LABELS = [[4, 4, 2], [5, 6, 7, 8, 2], [2]]
TOLERANCE = {"rtol": 1e-6, "atol": 1e-6}  # the package keeps its sinusoids in float32


def random_transformer(sharing: Sharing, V_source: int) -> Transformer:
    """A Transformer in float64, all weights random: gains of 1 would hide mistakes."""
    torch.manual_seed(1)
    model = create_transformer(DIMENSIONS, V_source, V, PAD, sharing).double()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.normal_(std=0.4).add_(1.0 if name.endswith("norm.weight") else 0.0)
    return model


def batch(sentences: list[list[int]], side: str) -> Tensor:
    return pad_sequence([*map(torch.tensor, sentences)], True, PAD, side)


@pytest.mark.parametrize("sharing", ["all", "target", "none"])
def test_logits_and_gradients_are_those_of_the_equations(sharing: Sharing) -> None:
    """Breaks with another norm, scale, position, head or mask than the paper's, or if a tied matrix
    loses one of its gradients, a tensor is detached or padding enters the loss."""
    side = "right" if sharing == "target" else "left"
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
        smoothed = {"label_smoothing": 0.1, "reduction": "sum"}  # section 5.4, which PyTorch has
        expected_loss += F.cross_entropy(expected, torch.tensor(labels), **smoothed)
    expected_loss.backward()
    torch.testing.assert_close(loss, expected_loss, **TOLERANCE)
    for name, weight in model.named_parameters():
        gradient = reference.weights[name].grad
        assert gradient.abs().max() > 1e-3, f"{name}: nothing to compare"
        torch.testing.assert_close(weight.grad, gradient, **TOLERANCE)


def test_sinusoids_are_exact_far_out() -> None:
    """Breaks if angles are computed in float32: at position 30,011 they are off by 1e-3."""
    table = sinusoids(30_012, 16)
    for pos in (0, 1, 2, 30_011):
        torch.testing.assert_close(table[pos], sinusoid(pos, 16).float(), rtol=0.0, atol=1e-6)

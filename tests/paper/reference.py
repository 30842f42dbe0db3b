"""A reference implementation of section 3: one sentence at a time, float64, no nn.Module, no
padding, no fused kernel; norm and loss are PyTorch's.

It is written only from the paper's equations, so that the package's Transformer can be compared
with it. Vectors are rows, as in the paper; a weight of nn.Linear is the transpose of the paper's
matrix. Tensors carry gradients.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True)
class Reference:
    """Equations 1 and 2 and Figure 1, with the named parameters of a Transformer with N layers and
    h heads."""

    weights: dict[str, Tensor]
    N: int
    h: int

    def logits(self, source: list[int], target: list[int]) -> Tensor:
        """Logits [T, V] of every position of the target, given the source; the target is shifted
        right by one."""
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
        heads = [
            attention(x @ W_Qi, memory @ W_Ki, memory @ W_Vi, causal)
            for W_Qi, W_Ki, W_Vi in zip(
                *(W.chunk(self.h, dim=1) for W in (W_Q, W_K, W_V)), strict=True
            )
        ]
        return self.add_and_norm(x, torch.cat(heads, dim=1) @ W_O, name)

    def feed_forward(self, x: Tensor, name: str) -> Tensor:
        """Equation 2: max(0, xW_1 + b_1)W_2 + b_2."""
        W_1, b_1, W_2, b_2 = (
            self.weights[f"{name}.W_{i}.{part}"] for i in (1, 2) for part in ("weight", "bias")
        )
        out = torch.maximum(torch.tensor(0.0), x @ W_1.T + b_1) @ W_2.T + b_2
        return self.add_and_norm(x, out, name)


def attention(Q: Tensor, K: Tensor, V: Tensor, causal: bool) -> Tensor:
    """Equation 1 for one head of one sentence; section 3.2.3 if `causal`: query i attends to the
    keys 0 … i."""
    rows = []
    for i, query in enumerate(Q):
        seen = slice(i + 1) if causal else slice(None)
        e = torch.stack([(query * key).sum() / math.sqrt(len(key)) for key in K[seen]]).exp()
        rows.append(e / e.sum() @ V[seen])
    return torch.stack(rows)


def embed(tokens: list[int], E: Tensor) -> Tensor:
    """Sections 3.4 and 3.5: √d_model · E[token] + PE(position)."""
    d_model = E.size(1)
    return torch.stack(
        [
            math.sqrt(d_model) * E[token] + sinusoid(position, d_model)
            for position, token in enumerate(tokens)
        ]
    )


def sinusoid(position: int, d_model: int) -> Tensor:
    """Section 3.5, number by number: sine at even and cosine at odd dimensions."""
    encoding = torch.zeros(d_model, dtype=torch.float64)
    for i in range(d_model // 2):
        angle = position / 10000 ** (2 * i / d_model)
        encoding[2 * i], encoding[2 * i + 1] = math.sin(angle), math.cos(angle)
    return encoding


def smoothed_loss(logits: Tensor, labels: list[int], epsilon_ls: float) -> Tensor:
    """Section 5.4 after Szegedy et al. (2015), which PyTorch has, summed."""
    labels = torch.tensor(labels)
    return F.cross_entropy(logits, labels, reduction="sum", label_smoothing=epsilon_ls)

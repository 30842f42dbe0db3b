"""A reference implementation of section 3: one sentence at a time, float64, no nn.Module, no
padding, no fused kernel.

It is written only from the paper's equations, so that the package's Transformer can be compared
with it. Vectors are rows, as in the paper; a weight of nn.Linear is the transpose of the paper's
matrix. Tensors carry gradients.
"""

import math
from dataclasses import dataclass

import torch
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
            x = self.sublayer(x, layer, "self_attention", x, everything(len(source), len(source)))
            x = self.sublayer(x, layer, "feed_forward")
        memory = x
        y = embed(target, E_target)
        for n in range(self.N):
            layer = f"decoder.layers.{n}"
            y = self.sublayer(y, layer, "self_attention", y, up_to_itself(len(target)))
            legal = everything(len(target), len(source))
            y = self.sublayer(y, layer, "cross_attention", memory, legal)
            y = self.sublayer(y, layer, "feed_forward")
        return y @ E_output.T

    def sublayer(
        self,
        x: Tensor,
        layer: str,
        kind: str,
        memory: Tensor | None = None,
        legal: Tensor | None = None,
    ) -> Tensor:
        """Section 3.1: LayerNorm(x + Sublayer(x))."""
        name = f"{layer}.{kind}"
        if memory is None:
            out = self.feed_forward(x, name)
        else:
            out = self.multi_head(x, memory, legal, name)
        gain, bias = (self.weights[f"{name}_norm.norm.{part}"] for part in ("weight", "bias"))
        return layer_norm(x + out, gain, bias)

    def multi_head(self, x: Tensor, memory: Tensor, legal: Tensor, name: str) -> Tensor:
        """Section 3.2.2: Concat(head_1, …, head_h)W^O, head by head."""
        W_QKV, W_O = (self.weights[f"{name}.W_{part}.weight"].T for part in ("QKV", "O"))
        values = W_O.size(0)  # h·d_v; the rest of W_QKV is twice h·d_k
        keys = (W_QKV.size(1) - values) // 2
        W_Q, W_K, W_V = W_QKV.split([keys, keys, values], dim=1)
        heads = [
            attention(x @ W_Qi, memory @ W_Ki, memory @ W_Vi, legal)
            for W_Qi, W_Ki, W_Vi in zip(
                *(W.chunk(self.h, dim=1) for W in (W_Q, W_K, W_V)), strict=True
            )
        ]
        return torch.cat(heads, dim=1) @ W_O

    def feed_forward(self, x: Tensor, name: str) -> Tensor:
        """Equation 2: max(0, xW_1 + b_1)W_2 + b_2."""
        W_1, b_1, W_2, b_2 = (
            self.weights[f"{name}.W_{i}.{part}"] for i in (1, 2) for part in ("weight", "bias")
        )
        return torch.maximum(torch.tensor(0.0), x @ W_1.T + b_1) @ W_2.T + b_2


def attention(Q: Tensor, K: Tensor, V: Tensor, legal: Tensor) -> Tensor:
    """Equation 1 for one head of one sentence; `legal` [T, S] is True if the query may attend to
    the key."""
    rows = []
    for query, allowed in zip(Q, legal, strict=True):
        scores = torch.stack([(query * key).sum() / math.sqrt(len(key)) for key in K])
        e = torch.where(allowed, scores, -math.inf).exp()
        rows.append(e / e.sum() @ V)
    return torch.stack(rows)


def everything(queries: int, keys: int) -> Tensor:
    """Every query may attend to every key."""
    return torch.ones(queries, keys, dtype=torch.bool)


def up_to_itself(length: int) -> Tensor:
    """Section 3.2.3: position i may attend to positions 0 … i."""
    return torch.tensor([[key <= query for key in range(length)] for query in range(length)])


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


def layer_norm(x: Tensor, gain: Tensor, bias: Tensor) -> Tensor:
    """Ba et al. (2016): normalize every row to mean 0 and variance 1, then apply gain and bias."""
    centred = x - x.mean(dim=1, keepdim=True)
    variance = (centred**2).mean(dim=1, keepdim=True)
    return centred / torch.sqrt(variance + 1e-6) * gain + bias


def smoothed_loss(logits: Tensor, labels: list[int], epsilon_ls: float) -> Tensor:
    """Section 5.4 after Szegedy et al. (2015): −Σ_k q'(k) log p(k) with q'(k) = (1 − ε)·δ(k, y) +
    ε/K, summed."""
    K = logits.size(1)
    loss = torch.tensor(0.0, dtype=torch.float64)
    for row, label in zip(logits, labels, strict=True):
        log_p = row - row.exp().sum().log()
        for k in range(K):
            q = (1 - epsilon_ls) * (k == label) + epsilon_ls / K
            loss = loss - q * log_p[k]
    return loss

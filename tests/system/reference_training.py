"""fairseq-train on the fast paths or on the reference, with the loss of every update.

    python tests/system/reference_training.py fast|reference LOSSES DATA OPTIONS...

LOSSES is a file for the smoothed loss of each batch in nats per token, one a line, unrounded.

The reference: PyTorch's matrix products; Equation 1 as written, with separate matrices for
queries, keys and values; the smoothed loss by its definition, from all log-probabilities at once;
Adam parameter by parameter; PyTorch's dropout.
"""

from __future__ import annotations

import sys
from typing import TextIO

import torch.nn.functional as F
from torch import Tensor

from fairseq_aiayn.nn import attention, layers
from fairseq_aiayn.nn.layers import Dropout
from fairseq_aiayn.plugin import training  # importing the plugin registers it
from fairseq_aiayn.training import reference_smoothed_nll


def reference_self_attention(
    layer: attention.SelfAttention, x: Tensor, mask: Tensor | None = None, causal: bool = False
) -> Tensor:
    """Compute `reference_attention` of a sequence over itself."""
    mask = attention.causal_mask(x.size(1), x.device) if causal else mask
    return reference_attention(layer, x, x, mask)


def reference_attention(
    layer: attention.MultiHeadAttention, x: Tensor, memory: Tensor, mask: Tensor | None = None
) -> Tensor:
    """Compute section 3.2.2 with Equation 1 as written, without dropout of weights."""
    W_Q, W_K, W_V = layer.W_QKV.weight.split(layer.projection_sizes)
    Q, K, V = F.linear(x, W_Q), F.linear(memory, W_K), F.linear(memory, W_V)
    heads = attention.attention(
        *(each.unflatten(-1, (layer.h, -1)).transpose(1, 2) for each in (Q, K, V)), mask
    )
    return layer.W_O(heads.transpose(1, 2).flatten(2))


def reference_adam_step(
    optimizer: training.AiaynAdam, closure: None = None, scale: float = 1.0
) -> None:
    """Do one update, one operation and one parameter at a time."""
    for group in optimizer.param_groups:
        group["fused"] = group["foreach"] = False
    optimizer.optimizer.step()


def install_references() -> None:
    """Replace every fast path of a training step by the reference."""
    attention.SelfAttention.forward = reference_self_attention
    attention.EncoderDecoderAttention.forward = reference_attention
    layers.linear = F.linear
    Dropout.forward = lambda module, x: F.dropout(x, module.p, module.training)
    training.AiaynLabelSmoothedCrossEntropy.projects = lambda *arguments: False
    training.smoothed_nll = reference_smoothed_nll
    training.AiaynAdam.step = reference_adam_step


def report_losses(losses: TextIO) -> None:
    """Let the criterion write the loss of each batch."""
    get_loss = training.AiaynLabelSmoothedCrossEntropy.forward

    def forward(self, model, sample, reduce=True):
        loss, size, log = get_loss(self, model, sample, reduce)
        print(float(loss) / size, file=losses, flush=True)
        return loss, size, log

    training.AiaynLabelSmoothedCrossEntropy.forward = forward


def main() -> None:
    kind, losses, *options = sys.argv[1:]
    if kind == "reference":
        install_references()
    sys.argv = ["fairseq-train", *options]
    from fairseq_cli.train import cli_main

    with open(losses, "w") as file:
        report_losses(file)
        cli_main()


if __name__ == "__main__":
    main()

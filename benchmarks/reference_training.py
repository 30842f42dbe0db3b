"""A worker that is fairseq-train on the fast paths or on the reference.

    python benchmarks/reference_training.py cpu fast|reference DATA OPTIONS...

It answers every update with the smoothed loss of its batch in nats per token: {"loss": 4.2}.

The reference: Equation 1 as written, with separate matrices for queries, keys and values;
the smoothed loss by its definition, from all log-probabilities at once; Adam parameter by
parameter; PyTorch's dropout.
"""

from __future__ import annotations

import sys

import torch.nn.functional as F
from torch import Tensor
from turn_taking import Channel, find_device

from fairseq_aiayn.nn import attention
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
    Dropout.forward = lambda module, x: F.dropout(x, module.p, module.training)
    training.AiaynLabelSmoothedCrossEntropy.projects = lambda *arguments: False
    training.smoothed_nll = reference_smoothed_nll
    training.AiaynAdam.step = reference_adam_step


def report_losses(channel: Channel) -> None:
    """Let the criterion answer with the loss of each batch."""
    get_loss = training.AiaynLabelSmoothedCrossEntropy.forward

    def forward(self, model, sample, reduce=True):
        loss, size, log = get_loss(self, model, sample, reduce)
        channel.answer({"loss": float(loss) / size})
        return loss, size, log

    training.AiaynLabelSmoothedCrossEntropy.forward = forward


def main() -> None:
    channel = Channel()
    device, kind, *options = sys.argv[1:]
    find_device(device)
    if kind == "reference":
        install_references()
    report_losses(channel)
    sys.argv = ["fairseq-train", *options]
    from fairseq_cli.train import cli_main

    cli_main()


if __name__ == "__main__":
    main()

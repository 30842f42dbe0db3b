"""Run fairseq-train on the fast paths or on the reference, and record the loss of every update.

    python benchmarks/reference_training.py fast|reference LOSSES.json DATA OPTIONS...

The reference: Equation 1 as written, with separate matrices for queries, keys and values;
the smoothed loss by its definition, from all log-probabilities at once; Adam parameter by
parameter; PyTorch's dropout.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import fairseq.trainer
import torch.nn.functional as F
from torch import Tensor

from fairseq_aiayn import plugin  # noqa: F401
from fairseq_aiayn.files.whole import write_whole
from fairseq_aiayn.nn.attention import MultiHeadAttention, attention, causal_mask
from fairseq_aiayn.nn.dropout import Dropout
from fairseq_aiayn.plugin import criterion
from fairseq_aiayn.plugin.optimizer import AiaynAdam
from fairseq_aiayn.training.label_smoothing import reference_smoothed_nll


def reference_attend(
    layer: MultiHeadAttention,
    x: Tensor,
    memory: Tensor,
    mask: Tensor | None = None,
    causal: bool = False,
) -> Tensor:
    """Compute section 3.2.2 with Equation 1 as written, without dropout of weights."""
    W_Q, W_K, W_V = layer.W_QKV.weight.split(layer.projection_sizes)
    if causal:
        mask = causal_mask(x.size(1), x.device)
    Q, K, V = F.linear(x, W_Q), F.linear(memory, W_K), F.linear(memory, W_V)
    heads = attention(
        *(each.unflatten(-1, (layer.h, -1)).transpose(1, 2) for each in (Q, K, V)), mask
    )
    return layer.W_O(heads.transpose(1, 2).flatten(2))


def reference_adam_step(optimizer: AiaynAdam, closure: None = None, scale: float = 1.0) -> None:
    """Do one update, one operation and one parameter at a time."""
    for group in optimizer.param_groups:
        group["fused"] = group["foreach"] = False
    optimizer.optimizer.step()


def install_references() -> None:
    """Replace every fast path of a training step by the reference."""
    MultiHeadAttention.forward = reference_attend
    Dropout.forward = lambda module, x: F.dropout(x, module.p, module.training)
    criterion.AiaynLabelSmoothedCrossEntropy.projects = lambda *arguments: False
    criterion.smoothed_nll = reference_smoothed_nll
    AiaynAdam.step = reference_adam_step


def keep_losses(path: Path) -> None:
    """Let the trainer write the smoothed loss of each batch, summed, in nats, after the last."""
    losses: list[float] = []
    train_step = fairseq.trainer.Trainer.train_step
    get_loss = criterion.AiaynLabelSmoothedCrossEntropy.forward

    def forward(self, model, sample, reduce=True):
        loss, size, log = get_loss(self, model, sample, reduce)
        losses.append(float(loss) / size)
        return loss, size, log

    def step(trainer, *arguments, **options):
        logged = train_step(trainer, *arguments, **options)
        if trainer.get_num_updates() == trainer.cfg.optimization.max_update:
            write_whole(path, json.dumps(losses))
        return logged

    criterion.AiaynLabelSmoothedCrossEntropy.forward = forward
    fairseq.trainer.Trainer.train_step = step


def main() -> None:
    kind, path, *options = sys.argv[1:]
    if kind == "reference":
        install_references()
    keep_losses(Path(path))
    sys.argv = ["fairseq-train", *options]
    from fairseq_cli.train import cli_main

    cli_main()


if __name__ == "__main__":
    main()

"""Section 6.1: the mean of the last checkpoints is better than each of them."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from fairseq_aiayn.nn.transformer import Transformer
from fairseq_aiayn.report.document import Table
from fairseq_aiayn.training.label_smoothing import smoothed_targets
from tour.number_words import VOCABULARY
from tour.training import DEVELOPMENT, Options, batch_of, loss_of, new_model

Checkpoints = Mapping[int, Mapping[str, Tensor]]  # the weights, by the number of updates


def averages(checkpoints: Checkpoints, options: Options) -> Table:
    """Compare the development losses of checkpoints with the loss of their mean.

    The losses are smoothed; what a model with the probabilities q' would have is subtracted.
    """
    means = {
        name: torch.stack([weights[name] for weights in checkpoints.values()]).mean(dim=0)
        for name in next(iter(checkpoints.values()))
    }
    losses = {f"{step} updates": _excess(weights, options) for step, weights in checkpoints.items()}
    mean_loss = sum(losses.values()) / len(losses)
    rows = [*losses.items(), ("mean of these losses", mean_loss)]
    rows.append(("loss of the mean weights", _excess(means, options)))
    return Table(["model", "loss above the smallest"], [[n, f"{loss:.4f}"] for n, loss in rows])


@torch.no_grad()
def _excess(weights: Mapping[str, Tensor], options: Options) -> float:
    model: Transformer = new_model(options)
    model.load_state_dict(weights)
    model.eval()
    q = smoothed_targets(torch.tensor([2]), len(VOCABULARY), options.epsilon_ls, torch.float64)
    smallest = -(q * q.log()).sum()
    return (loss_of(model, batch_of(DEVELOPMENT), options.epsilon_ls) - smallest).item()

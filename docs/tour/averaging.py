"""Section 6.1: the mean of the last checkpoints is about as good as the best of them."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from fairseq_aiayn.report.document import Table
from tour.number_words import VOCABULARY
from tour.smoothing import smallest_loss
from tour.training import DEVELOPMENT, Options, batch_of, loss_of, new_model

Weights = Mapping[str, Tensor]


def mean_weights(checkpoints: Mapping[int, Weights]) -> dict[str, Tensor]:
    """Return the mean of every weight; the keys of checkpoints are numbers of updates."""
    names = checkpoints[max(checkpoints)]
    return {
        name: torch.stack([weights[name] for weights in checkpoints.values()]).mean(dim=0)
        for name in names
    }


def averages(checkpoints: Mapping[int, Weights], options: Options) -> Table:
    """Compare the development losses of checkpoints with the loss of their mean.

    The losses are smoothed, in nats per word, less the smallest possible one.
    """
    losses = {f"{step} updates": _excess(weights, options) for step, weights in checkpoints.items()}
    mean_loss = sum(losses.values()) / len(losses)
    rows = [*losses.items(), ("mean of these losses", mean_loss)]
    rows.append(("loss of the mean weights", _excess(mean_weights(checkpoints), options)))
    return Table(["model", "loss above the smallest"], [[n, f"{loss:.4f}"] for n, loss in rows])


@torch.no_grad()
def _excess(weights: Weights, options: Options) -> float:
    model = new_model(options)
    model.load_state_dict(weights)
    model.eval()
    loss = loss_of(model, batch_of(DEVELOPMENT), options.epsilon_ls).item()
    return loss - smallest_loss(options.epsilon_ls, K=len(VOCABULARY))

"""Section 5.3: Equation 3, and why the rate begins low."""

from __future__ import annotations

from dataclasses import replace
from math import hypot

from matplotlib.figure import Figure
from torch import nn

from fairseq_aiayn.palette import line_colour
from fairseq_aiayn.paper import BASE, BIG, learning_rate
from fairseq_aiayn.report.document import Table
from tour.training import Options, development_loss, new_model, train

DEEPER = Options(N=4, warmup=400, updates=400)
SHOWN = (1, 10, 50, 100, 200, 400)  # updates


def schedule_picture() -> Figure:
    """Draw Equation 3 for base and big."""
    figure = Figure(figsize=(7.0, 2.8), layout="constrained", facecolor="white")
    axes = figure.subplots()
    steps = range(1, 40_001, 50)
    for number, row in enumerate((BASE, BIG)):
        rates = [learning_rate(step, row.d_model, row.warmup) for step in steps]
        label = f"{row.name}, d_model {row.d_model}"
        axes.plot(steps, rates, label=label, color=line_colour(number))
    axes.set(xlabel="step", ylabel="learning rate", ylim=(0, None), xlim=(0, None))
    axes.legend(frameon=False)
    return figure


def rates() -> Table:
    """Return the first, the highest and the last rate of base and big."""
    rows = []
    for row in (BASE, BIG):
        steps = (1, row.warmup, row.steps)
        found = [f"{learning_rate(step, row.d_model, row.warmup):.2e}" for step in steps]
        rows.append([row.name, str(row.d_model), f"{row.warmup:,}", f"{row.steps:,}", *found])
    header = ["row", "d_model", "warmup_steps", "steps", "first rate", "highest", "last"]
    return Table(header, rows)


def warm_up() -> Table:
    """Train a deeper model with warm-up."""
    return _course(DEEPER)


def no_warm_up() -> Table:
    """Train it with the highest rate from the beginning."""
    return _course(replace(DEEPER, first_step=DEEPER.warmup))


def _course(options: Options) -> Table:
    """Return what a training does after some updates.

    The loss is that of the development set after the update, in nats per word; the gradients are
    those of the update.
    """
    model, rows = new_model(options), []
    for step in train(model, options):
        if step in SHOWN:
            norms = gradient_norm(model), gradient_norm(model.encoder.layers[0])
            loss = f"{development_loss(model):.2f}"
            gradients = (f"{norm:.1e}" for norm in norms)
            rows.append([str(step), f"{options.rate(step):.1e}", loss, *gradients])
    header = ["update", "rate", "loss", "gradient of all weights", "of the first encoder layer"]
    return Table(header, rows, left=0)


def gradient_norm(module: nn.Module) -> float:
    """Return the Euclidean norm of all gradients of a module."""
    return hypot(*(p.grad.norm().item() for p in module.parameters()))

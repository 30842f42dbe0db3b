"""Section 5.3: Equation 3, and why the rate begins low."""

from __future__ import annotations

from math import hypot

from matplotlib.figure import Figure
from torch import nn

from fairseq_aiayn.palette import line_colour
from fairseq_aiayn.paper import BASE, BIG
from fairseq_aiayn.report.document import Table
from fairseq_aiayn.training.learning_rate import learning_rate
from tour.training import Options, development_loss, new_model, train

SHOWN = (1, 10, 50, 100, 200, 400)  # updates


def schedule_picture() -> Figure:
    """Draw Equation 3 for base and big."""
    figure = Figure(figsize=(7.0, 2.8), layout="constrained", facecolor="white")
    axes = figure.subplots()
    steps = range(1, 40_001, 50)
    for number, row in enumerate((BASE, BIG)):
        rates = [learning_rate(step, row.d_model, row.warmup) for step in steps]
        axes.plot(
            steps, rates, label=f"{row.name}, d_model {row.d_model}", color=line_colour(number)
        )
    axes.set(xlabel="step", ylabel="learning rate", ylim=(0, None), xlim=(0, None))
    axes.legend(frameon=False)
    return figure


def peaks() -> Table:
    """Return the largest rate of base and big."""
    rows = []
    for row in (BASE, BIG):
        first, highest, last = (
            f"{learning_rate(step, row.d_model, row.warmup):.2e}"
            for step in (1, row.warmup, row.steps)
        )
        rows.append([row.name, str(row.d_model), f"{row.warmup:,}", first, highest, last])
    header = ["row", "d_model", "warmup_steps", "first rate", "highest", "last"]
    return Table(header, rows)


def warm_up() -> Table:
    """Train with and without warm-up; both have the same highest rate.

    The norms are those of the gradients of the whole model and of its first encoder layer.
    """
    options = Options(N=4, warmup=400, updates=400)
    with_warm_up = _course(options)
    without = _course(Options(N=4, warmup=400, updates=400, first_step=400))
    rows = [[str(n), *with_warm_up[n], *without[n]] for n in SHOWN]
    names = ("rate", "loss", "gradient", "first layer's")
    header = ["update", *(f"{name}, {kind}" for kind in ("warm-up", "none") for name in names)]
    return Table(header, rows, left=0)


def _course(options: Options) -> dict[int, list[str]]:
    """Return the rate, the development loss after an update and the norms of its gradients."""
    model = new_model(options)
    course = {}
    for step in train(model, options):
        if step in SHOWN:
            rate = learning_rate(max(step, options.first_step), options.d_model, options.warmup)
            values = development_loss(model), gradient_norm(model)
            first_layer = gradient_norm(model.encoder.layers[0])
            course[step] = [
                f"{rate:.5f}",
                *(f"{value:.2f}" for value in values),
                f"{first_layer:.4f}",
            ]
    return course


def gradient_norm(module: nn.Module) -> float:
    """Return the Euclidean norm of all gradients of a module."""
    return hypot(*(p.grad.norm().item() for p in module.parameters()))

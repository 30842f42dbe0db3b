"""Table 1 with what this machine measures beside what the paper prints."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from matplotlib.figure import Figure
from tqdm import tqdm

from fairseq_aiayn.complexity.layers import KINDS, LayerKind, path_length
from fairseq_aiayn.complexity.measuring import Cost, exponent, measure
from fairseq_aiayn.palette import line_colour
from fairseq_aiayn.report.document import Table

MEASURES: dict[str, Callable[[Cost], float]] = {
    "FLOPs": lambda cost: cost.flops,
    "time": lambda cost: cost.seconds,
    "memory": lambda cost: cost.peak_bytes,
}


@dataclass(frozen=True)
class Measured:
    """A kind of layer at several lengths of one width, and at several widths of one length."""

    kind: LayerKind
    by_length: Mapping[int, Cost]
    by_width: Mapping[int, Cost]
    paths: Mapping[int, int]  # longest path, by length


def measure_all(
    lengths: Sequence[int], widths: Sequence[int], path_lengths: Sequence[int]
) -> list[Measured]:
    """Measure every kind at all lengths with the first width, and at all widths with the last
    length.

    Raises ValueError for a width that the heads do not divide, or fewer than two sizes.
    """
    for name, sizes in (("lengths", lengths), ("widths", widths)):
        if len({*sizes}) < 2 or min(sizes) < 1:
            raise ValueError(f"{name} must be at least two different positive numbers")
    found = []
    for kind in tqdm(KINDS, desc="layers", disable=None):
        torch.manual_seed(0)
        found.append(
            Measured(
                kind,
                {n: measure(kind.build(widths[0], 0), n, widths[0]) for n in lengths},
                {d: measure(kind.build(d, 0), lengths[-1], d) for d in widths},
                {n: path_length(kind, n) for n in path_lengths},
            )
        )
    return found


def table(found: Sequence[Measured]) -> Table:
    """Return the table: printed order, measured exponents of n and of d, steps and paths."""
    lengths = list(found[0].paths)
    header = ["layer", "printed", *(f"{name} n^, d^" for name in MEASURES)]
    header += ["steps that wait for each other", *(f"longest path, n = {n}" for n in lengths)]
    rows = []
    for one in found:
        grown = [
            f"{exponent(_values(one.by_length, of)):.2f}, {exponent(_values(one.by_width, of)):.2f}"
            for of in MEASURES.values()
        ]
        paths = [f"{steps} ({one.kind.path})" for steps in one.paths.values()]
        rows.append([one.kind.name, one.kind.complexity, *grown, one.kind.sequential, *paths])
    return Table(header, rows, left=2)


def draw(found: Sequence[Measured]) -> Figure:
    """Draw FLOPs, time and memory over n, both axes logarithmic, a line per kind of layer."""
    figure = Figure(figsize=(13, 4.6), layout="constrained", facecolor="white")
    units = {"FLOPs": 1e-9, "time": 1e3, "memory": 2**-20}
    titles = {"FLOPs": "GFLOPs", "time": "milliseconds", "memory": "MiB"}
    for axes, (name, of) in zip(figure.subplots(1, 3), MEASURES.items(), strict=True):
        for place, one in enumerate(found):
            values = [of(cost) * units[name] for cost in one.by_length.values()]
            sizes, colour = list(one.by_length), line_colour(place)
            axes.plot(sizes, values, marker="o", color=colour, label=one.kind.name)
        axes.set(xscale="log", yscale="log", xlabel="n, positions", title=titles[name])
        axes.set_xticks(list(found[0].by_length), map(str, found[0].by_length), minor=False)
        axes.minorticks_off()
    figure.axes[0].legend(fontsize=8)
    return figure


def as_json(found: Sequence[Measured]) -> dict:
    """Return all figures, ready for json.dump."""
    return {
        one.kind.name: {
            "printed": one.kind.complexity,
            "by length": {n: vars(cost) for n, cost in one.by_length.items()},
            "by width": {d: vars(cost) for d, cost in one.by_width.items()},
            "longest path": dict(one.paths),
        }
        for one in found
    }


def _values(costs: Mapping[int, Cost], of: Callable[[Cost], float]) -> dict[int, float]:
    return {size: of(cost) for size, cost in costs.items()}

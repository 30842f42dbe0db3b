"""Run every experiment of the tour: `python -m tour` writes measured.json and the pictures.

`make tour` then lets cog copy the results, and the code of the package, into docs/tour.md.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import torch
from matplotlib.figure import Figure
from tqdm import tqdm

from fairseq_aiayn.report.document import Table
from fairseq_aiayn.text import whole_path
from tour import (
    attention,
    averaging,
    inputs,
    model,
    schedule,
    search,
    smoothing,
    translation,
    trees,
)
from tour.training import Options, new_model, train

HERE = Path(__file__).parent
QUICK: dict[str, Callable[[], Table | dict[str, str]]] = {
    "scaling": attention.scaling,
    "masked_weights": attention.masked_weights,
    "heads": attention.heads,
    "parameters": model.parameters,
    "embedding_scale": inputs.embedding_scale,
    "offsets": inputs.offsets,
    "rates": schedule.rates,
    "floors": smoothing.floors,
    "beams": search.beams,
    "penalties": search.penalties,
    "sequences": trees.sequences,
}
USUAL = Options()
CHECKPOINTS_AT = range(440, 601, 40)  # updates


def trained_results() -> dict[str, Table | Figure]:
    """Train one model per ε_ls, and return what is measured with them."""
    models, checkpoints = {}, {}
    for epsilon_ls in smoothing.ROWS:
        options = replace(USUAL, epsilon_ls=epsilon_ls)
        models[epsilon_ls] = trained = new_model(options)
        steps = train(trained, options)
        for step in tqdm(steps, f"training with ε_ls {epsilon_ls}", options.updates, disable=None):
            if options == USUAL and step in CHECKPOINTS_AT:
                weights = trained.state_dict().items()
                checkpoints[step] = {name: weight.clone() for name, weight in weights}
    usual = models[USUAL.epsilon_ls]
    return {
        "smoothing": smoothing.compare_trained(models),
        "averages": averaging.averages(checkpoints, USUAL),
        "mistakes": translation.mistakes(usual),
        "attention": translation.attention_picture(usual),
    }


def main() -> None:
    """Write all results into the folder of this module."""
    torch.set_num_threads(1)  # more threads make so small a model slower
    results: dict[str, Table | Figure | dict[str, str]]
    results = {name: experiment() for name, experiment in QUICK.items()}
    results["warm_up"], results["no_warm_up"] = schedule.warm_up(), schedule.no_warm_up()
    results["schedule"] = schedule.schedule_picture()
    results["positions"] = inputs.positions_picture()
    results.update(trained_results())
    tables = {}
    for name, result in results.items():
        if isinstance(result, Figure):
            with whole_path(HERE / f"{name}.png") as part:
                result.savefig(part, dpi=90, format="png")
        else:
            tables[name] = asdict(result) if isinstance(result, Table) else result
    with whole_path(HERE / "measured.json") as part:
        part.write_text(json.dumps(tables, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

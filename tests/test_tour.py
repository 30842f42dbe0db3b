"""docs/tour.ipynb runs, and its outputs are those of the code as it is."""

import json
import re
from pathlib import Path

import IPython.display
import matplotlib
import pytest
from matplotlib import pyplot

TOUR = Path(__file__).parents[1] / "docs" / "tour.ipynb"
CELLS = [cell for cell in json.loads(TOUR.read_text("utf-8"))["cells"] if cell["source"]]
PROGRAMS = [cell for cell in CELLS if cell["cell_type"] == "code"]
TRAINED = "trained"  # the tag of cells whose results depend on a training
NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?(?:e[+-]\d+)?")


def source_of(cell: dict) -> str:
    return "".join(cell["source"])


def stored_texts(cell: dict) -> str:
    """Return what a cell printed, and the code it showed, when the notebook was executed."""
    printed = [part for output in cell["outputs"] for part in output.get("text", [])]
    shown = [
        part
        for output in cell["outputs"]
        for part in output.get("data", {}).get("text/markdown", [])
    ]
    return "".join([*shown, *printed])


def numbers(text: str) -> list[float]:
    return [float(found.replace(",", "")) for found in NUMBER.findall(text)]


@pytest.fixture(scope="module")
def outputs() -> list[str]:
    """What each program writes now; trainings have 20 updates."""
    written: list[str] = []
    names: dict[str, object] = {}
    with pytest.MonkeyPatch.context() as patch:
        shown: list[str] = []
        patch.setattr(IPython.display, "display", lambda markdown: shown.append(markdown.data))
        patch.setattr(
            "builtins.print", lambda *a, sep=" ": shown.append(sep.join(map(str, a)) + "\n")
        )
        patch.setattr(pyplot, "show", lambda: pyplot.close("all"))
        matplotlib.use("Agg")
        for cell in PROGRAMS:
            source = re.sub(
                r"updates, warmup = \d+, \d+", "updates, warmup = 20, 20", source_of(cell)
            )
            exec(compile(source, f"cell {cell['id']}", "exec"), names)  # noqa: S102
            written.append("".join(shown))
            shown.clear()
    return written


def test_programs_write_what_is_stored(outputs: list[str]) -> None:
    """Breaks if a function that the notebook shows is changed and `make tour` is not run."""
    for cell, written in zip(PROGRAMS, outputs, strict=True):
        if TRAINED not in cell["metadata"].get("tags", []):
            stored = stored_texts(cell)
            assert NUMBER.sub("#", written).split() == NUMBER.sub("#", stored).split()
            assert numbers(written) == pytest.approx(numbers(stored), rel=0.02, abs=0.002)


def test_every_program_was_executed_in_order() -> None:
    assert [cell["execution_count"] for cell in PROGRAMS] == list(range(1, len(PROGRAMS) + 1))
    assert all(output["output_type"] != "error" for cell in PROGRAMS for output in cell["outputs"])


def columns(heading: str) -> list[list[float]]:
    """Return the numbers of the stored table whose first line begins so, by column."""
    (text,) = [stored_texts(cell) for cell in PROGRAMS if heading in stored_texts(cell)]
    rows = [numbers(line) for line in text.split("\n")]
    return [list(column) for column in zip(*filter(None, rows), strict=False)]


def test_warm_up_decides_whether_the_model_learns() -> None:
    """The text: without warm-up, the loss falls faster first, then no gradient reaches layer 1."""
    _, loss, gradient = columns("gradient of the first layer")
    half = len(loss) // 2
    with_it, without = loss[:half], loss[half:]
    assert without[1] < with_it[1]
    assert with_it[-1] < 0.2
    assert min(without) > 2.8
    assert len(gradient) == len(loss)


def test_smoothing_makes_the_model_less_sure() -> None:
    _, perplexity, largest = columns("mean of the largest probability")
    assert perplexity == sorted(perplexity)
    assert largest == sorted(largest, reverse=True)


def test_mean_of_weights_is_about_as_good_as_the_best_checkpoint() -> None:
    (text,) = [stored_texts(cell) for cell in PROGRAMS if "mean weights" in stored_texts(cell)]
    *single, mean = [numbers(line)[-1] for line in text.strip().split("\n")[1:]]
    assert mean < sum(single) / len(single)
    assert mean == pytest.approx(min(single), rel=0.01)

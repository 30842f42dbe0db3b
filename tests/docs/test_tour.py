"""docs/tour.ipynb runs, and its outputs are those of the code as it is."""

import json
import re
from pathlib import Path

import IPython.display
import matplotlib
import pytest
from matplotlib import pyplot

TOUR = Path(__file__).parents[2] / "docs" / "tour.ipynb"
CELLS = [cell for cell in json.loads(TOUR.read_text("utf-8"))["cells"] if cell["source"]]
PROGRAMS = [cell for cell in CELLS if cell["cell_type"] == "code"]
TRAINED = "trained"  # the tag of cells whose results depend on a training
NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?(?:e[+-]\d+)?")


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


def test_programs_write_what_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Breaks if a function that the notebook shows is changed and `make tour` is not run; trainings
    have 20 updates here."""
    shown: list[str] = []
    names: dict[str, object] = {}
    monkeypatch.setattr(IPython.display, "display", lambda markdown: shown.append(markdown.data))
    monkeypatch.setattr(
        "builtins.print", lambda *a, sep=" ": shown.append(sep.join(map(str, a)) + "\n")
    )
    monkeypatch.setattr(pyplot, "show", lambda: pyplot.close("all"))
    matplotlib.use("Agg")
    for cell in PROGRAMS:
        shown.clear()
        source = "".join(cell["source"])
        source = re.sub(r"updates, warmup = \d+, \d+", "updates, warmup = 20, 20", source)
        exec(compile(source, f"cell {cell['id']}", "exec"), names)  # noqa: S102
        if TRAINED not in cell["metadata"].get("tags", []):
            written, stored = "".join(shown), stored_texts(cell)
            assert NUMBER.sub("#", written).split() == NUMBER.sub("#", stored).split()
            assert numbers(written) == pytest.approx(numbers(stored), rel=0.02, abs=0.002)


def test_every_program_was_executed_in_order() -> None:
    assert [cell["execution_count"] for cell in PROGRAMS] == list(range(1, len(PROGRAMS) + 1))
    assert all(output["output_type"] != "error" for cell in PROGRAMS for output in cell["outputs"])

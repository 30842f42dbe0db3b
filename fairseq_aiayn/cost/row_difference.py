"""The cells in which two rows differ: their settings, regime, decoding, cost and results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from fairseq_aiayn.cost.estimate import USUAL_LENGTH
from fairseq_aiayn.cost.row_table import COST_CELLS, in_millions, row_as_json
from fairseq_aiayn.paper import Row

NAMES = ("name", "arch")  # left out: they differ between any two rows
FORMS = COST_CELLS | {"authors_parameters": in_millions}


@dataclass(frozen=True)
class CellDifference:
    """A cell in which two rows differ; for a cost, `ratio` is the first value over the second."""

    cell: str
    values: tuple[object, object]
    ratio: float | None


def row_differences(first: Row, second: Row, vocabulary: int) -> list[CellDifference]:
    """Return the cells that differ, in a row's order; raises ValueError for an empty vocabulary."""
    a, b = (_flat(row_as_json(row, vocabulary)) for row in (first, second))
    pairs = {cell: (a[cell], b[cell]) for cell in a if cell not in NAMES}
    return [
        CellDifference(cell, values, values[0] / values[1] if cell in COST_CELLS else None)
        for cell, values in pairs.items()
        if values[0] != values[1]
    ]


def difference_table(first: Row, second: Row, vocabulary: int) -> list[list[str]]:
    """Return a header and the cells that differ, with a column of ratios if a cost differs.

    Raises ValueError for an empty vocabulary.
    """
    found = row_differences(first, second, vocabulary)
    header = ["", first.name, second.name, f"{first.name} / {second.name}"]
    lines = [
        [
            difference.cell,
            *(_text(difference.cell, value) for value in difference.values),
            "" if difference.ratio is None else f"{difference.ratio:.3f}",
        ]
        for difference in found
    ]
    width = 4 if any(difference.ratio is not None for difference in found) else 3
    return [line[:width] for line in [header, *lines]]


def difference_as_json(first: Row, second: Row, vocabulary: int) -> dict:
    """Return the cells that differ, ready for json.dump.

    Raises ValueError for an empty vocabulary.
    """
    return {
        "rows": [first.name, second.name],
        "vocabulary": vocabulary,
        "length": USUAL_LENGTH,
        "differences": [asdict(found) for found in row_differences(first, second, vocabulary)],
    }


def _flat(row: Mapping[str, object]) -> dict[str, object]:
    """Return a row's cells; cells of an inner object are called OBJECT.CELL."""
    flat = {}
    for name, value in row.items():
        inner = isinstance(value, dict)
        flat |= {f"{name}.{key}": part for key, part in value.items()} if inner else {name: value}
    return flat


def _text(cell: str, value: object) -> str:
    if value is None:
        return "not stated"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return FORMS[cell](value) if cell in FORMS else str(value)

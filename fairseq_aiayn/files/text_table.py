"""Format tables in plain text, for terminals and logs."""

from __future__ import annotations

from collections.abc import Sequence


def aligned_lines(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return one line per row: the first column aligned to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if place else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]

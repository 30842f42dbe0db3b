"""Markdown that is readable as plain text: aligned tables, code blocks, folded sections."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape

from fairseq_aiayn.files.parallel_text import one_line

ENTITY = re.compile(r"&(?=#?\w+;)")  # other ampersands need no escape
MARKUP = re.compile(r"[\\`*_\[\]<>&#~]")


def aligned_table(cells: Sequence[Sequence[str]], left: int = 1) -> list[str]:
    """Return the lines of a table whose first row is the header.

    The first `left` columns are aligned to the left, the others, of numbers, to the right.
    """
    cells = [[as_text(cell).replace("|", "\\|") for cell in row] for row in cells]
    widths = [max(3, *map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        _row(
            cell.ljust(w) if k < left else cell.rjust(w)
            for k, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in cells
    ]
    rule = _row("-" * w if k < left else "-" * (w - 1) + ":" for k, w in enumerate(widths))
    return [lines[0], rule, *lines[1:]]


def code_block(lines: Sequence[str], language: str) -> list[str]:
    """Return a code block; its fences are longer than any run of backticks in the lines."""
    longest = max((len(run) for line in lines for run in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return [fence + language, *lines, fence]


def as_text(text: str) -> str:
    """Return a text on one line with its HTML escaped; Markdown stays."""
    return ENTITY.sub("&amp;", one_line(text)).replace("<", "&lt;")


def literal(text: str) -> str:
    """Return a text on one line with all markup escaped."""
    return MARKUP.sub(lambda match: f"\\{match[0]}", one_line(text))


def folded(summary: str, facts: Mapping[str, str], commands: Mapping[str, str]) -> list[str]:
    """Return a section of facts and commands by name; it is folded if HTML is rendered."""
    script = [line for name, command in commands.items() for line in (f"# {name}", command)]
    return [
        "<details>",
        f"<summary>{escape(summary)}</summary>",
        "",
        *(f"- {what}: {as_text(text)}" for what, text in facts.items()),
        *(["", *code_block(script, "sh")] if script else []),
        "",
        "</details>",
    ]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"

"""Blocks and documents as Markdown that is readable as it stands."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

from fairseq_aiayn.report.document import (
    Block,
    Bullets,
    Document,
    Figure,
    Folded,
    Paragraph,
    Table,
    Texts,
)
from fairseq_aiayn.text import one_line

ENTITY = re.compile(r"&(?=#?\w+;)")  # an ampersand that HTML does not take as it stands
MARKUP = re.compile(r"[\\`*_\[\]<>&#~]")


def as_markdown(document: Document) -> str:
    """Return the text of a Markdown file; a picture is left out, its figures are printed."""
    parts = [f"# {_literal(document.title)}"]
    for section in document.sections:
        parts += [f"## {section.title}", *map(_text_of, section.blocks)]
    return "\n\n".join(parts) + "\n"


def blocks_as_markdown(blocks: Sequence[Block]) -> str:
    """Return the Markdown of blocks that stand below each other without headings."""
    return "\n\n".join(map(_text_of, blocks)) + "\n"


def _text_of(block: Block) -> str:
    return "\n".join(_lines(block))


def _lines(block: Block) -> list[str]:
    match block:
        case Paragraph(text):
            return [_without_html(text)]
        case Bullets(texts):
            return [f"- {_without_html(text)}" for text in texts]
        case Table(header, rows, left):
            return _table_lines([header, *rows], left)
        case Figure(_, caption, table):
            return [caption, "", *_lines(table)]
        case Texts(title, texts):
            return [title, "", *(f"- {_literal(name)}: {_literal(text)}" for name, text in texts)]
        case Folded():
            return _folded_lines(block)


def _table_lines(cells: Sequence[Sequence[str]], left: int) -> list[str]:
    """Return the lines of an aligned table; the first row of the cells is its header."""
    cells = [[_without_html(cell).replace("|", "\\|") for cell in row] for row in cells]
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


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _folded_lines(block: Folded) -> list[str]:
    """Return the lines of a block that is folded where HTML is shown."""
    script = [line for name, command in block.commands.items() for line in (f"# {name}", command)]
    return [
        "<details>",
        f"<summary>{escape(block.summary)}</summary>",
        "",
        *(f"- {what}: {_without_html(text)}" for what, text in block.facts.items()),
        *(["", *_code_lines(script)] if script else []),
        "",
        "</details>",
    ]


def _code_lines(lines: Sequence[str]) -> list[str]:
    """Return shell commands between fences that are longer than any run of backticks in them."""
    longest = max((len(run) for line in lines for run in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}sh", *lines, fence]


def _without_html(text: str) -> str:
    """Return a text on one line in which no HTML takes effect; Markdown does."""
    return ENTITY.sub("&amp;", one_line(text)).replace("<", "&lt;")


def _literal(text: str) -> str:
    """Return a text on one line in which neither HTML nor Markdown takes effect."""
    return MARKUP.sub(lambda match: f"\\{match[0]}", one_line(text))

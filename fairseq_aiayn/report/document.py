"""Tables and pages as blocks, and their text as Markdown, for a terminal and as HTML.

A text is a string, in which nothing is markup, or several, some of which are Code.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from typing import cast

from fairseq_aiayn.console import aligned, one_line

# What Markdown or HTML take for markup: no underscore within a word, no "&" alone
ACTIVE = re.compile(r"[\\`*\[\]<~|]|^[#>]|(?<![^\W_])_|_(?![^\W_])|&(?=#?\w+;)")


class Code(str):
    """A part of a text that is code."""


Paragraph = str | Sequence[str]
Cell = tuple[str, object, str]  # of a table: its column, its value or None, and the value's format


@dataclass(frozen=True)
class Table:
    """Cells under a header; the first `left` columns hold words, the others numbers."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: int = 1


@dataclass(frozen=True)
class Figure:
    """A picture, and its figures as a table for readers who cannot see it or want to copy them."""

    svg: str
    caption: str
    table: Table


@dataclass(frozen=True)
class Texts:
    """Texts of others, each with its name."""

    title: str
    texts: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Details:
    """Facts and commands that a reader sees after unfolding them."""

    summary: str
    facts: Mapping[str, Paragraph]
    commands: Mapping[str, str]  # by their names


Block = Paragraph | Table | Figure | Texts | Details  # a text of ours is a paragraph
Sections = Mapping[str, Sequence[Block]]  # the blocks of a page by their headings


def table_of(rows: Sequence[Sequence[Cell]], left: int = 1) -> Table:
    """Return a table of rows, at least one, that have the same columns; None is an empty cell."""
    texts = [["" if cell[1] is None else format(*cell[1:]) for cell in row] for row in rows]
    return Table([column for column, _, _ in rows[0]], texts, left)


def turned(table: Table) -> Table:
    """Return a table with the columns as rows, without those that are empty but for their name."""
    header, *rows = zip(table.header, *table.rows, strict=True)
    return Table(header, [row for row in rows if any(row[1:])])


def escaped(text: str) -> str:
    """Return a text on one line in which neither HTML nor Markdown takes effect."""
    return ACTIVE.sub(lambda match: f"\\{match[0]}", one_line(text))


def as_markdown(sections: Sections, level: int = 2) -> str:
    """Return the Markdown of sections whose headings have a level; of a picture, its figures."""
    return "\n".join(
        f"{'#' * level} {heading}\n\n{blocks_as_markdown(blocks)}"
        for heading, blocks in sections.items()
    )


def blocks_as_markdown(blocks: Sequence[Block], plain: Callable[[str], str] = escaped) -> str:
    """Return the Markdown of blocks without headings; `plain` makes a text one line without markup.
    A terminal needs no escapes: its `plain` is `one_line`."""
    return "\n\n".join("\n".join(_lines(block, plain)) for block in blocks) + "\n"


def _lines(block: Block, plain: Callable[[str], str]) -> list[str]:
    match block:
        case Table(header, rows, left):
            return _table_lines([[*map(plain, row)] for row in (header, *rows)], left)
        case Figure(_, caption, table):
            return [caption, "", *_lines(table, plain)]
        case Texts(title, texts):
            return [title, "", *(f"- {plain(name)}: {plain(text)}" for name, text in texts)]
        case Details(summary, facts, commands):
            script = [
                one_line(line) for pair in commands.items() for line in (f"# {pair[0]}", pair[1])
            ]
            fence = _backticks("\n".join(script), 3)
            return [
                "<details>",
                f"<summary>{escape(one_line(summary))}</summary>",
                "",
                *(f"- {what}: {_inline(text, plain)}" for what, text in facts.items()),
                *(["", f"{fence}sh", *script, fence] if script else []),
                "",
                "</details>",
            ]
    return [_inline(block, plain)]


def _table_lines(cells: Sequence[Sequence[str]], left: int) -> list[str]:
    """Return the lines of an aligned table; the first row is its header."""
    shortest_rule = ["---" if index < left else "--:" for index in range(len(cells[0]))]
    header, rule, *rows = aligned([cells[0], shortest_rule, *cells[1:]], left)
    rule = [cell.replace(" ", "-") for cell in rule]
    return [f"| {' | '.join(row)} |" for row in (header, rule, *rows)]


def _inline(text: Paragraph, plain: Callable[[str], str]) -> str:
    parts = [text] if isinstance(text, str) else text
    return "".join(_code(part) if isinstance(part, Code) else plain(part) for part in parts)


def _code(text: str) -> str:
    fence, space = _backticks(text, 1), " " if "`" in text else ""
    return f"{fence}{space}{one_line(text)}{space}{fence}"


def _backticks(text: str, fewest: int) -> str:
    """Return more backticks than stand in a row in a text."""
    return "`" * max(fewest, *(len(run) + 1 for run in re.findall("`*", text)))


def as_html(title: str, lead: str, sections: Sections) -> str:
    """Return the text of an HTML file that needs nothing else and runs no script; no text of a run
    is markup in it. The lead stands under the title."""
    from jinja2 import Environment  # here: `aiayn rows` needs no HTML
    from markupsafe import Markup

    here = files("fairseq_aiayn.report")
    styles = files("fairseq_aiayn.attention_maps") / "page_style.css", here / "report.css"
    environment = Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, finalize=_shown
    )
    environment.filters["visible"] = _shown
    environment.filters["anchor"] = lambda name: re.sub(r"\W+", "-", name.lower())
    environment.tests["code"] = lambda part: isinstance(part, Code)
    template = environment.from_string((here / "report.html").read_text(encoding="utf-8"))
    style = "".join(sheet.read_text(encoding="utf-8") for sheet in styles)
    return template.render(title=title, lead=lead, sections=sections, style=Markup(style))


def _shown(value: object) -> object:
    """Return a text that is not markup yet as `one_line` does, but with its lines."""
    if type(value) not in (str, Code):
        return value
    return "\n".join(map(one_line, cast(str, value).split("\n")))

"""Tables and pages as blocks, and their text as Markdown, HTML and JSON.

A text is a string, in which nothing is markup, or several, some of which are Code.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files

# What Markdown or HTML take for markup: no underscore within a word, no "&" alone
ACTIVE = re.compile(r"[\\`*\[\]<~|]|^[#>]|(?<![^\W_])_|_(?![^\W_])|&(?=#?\w+;)")


class Code(str):
    """A part of a text that is code."""

    __slots__ = ()


class Markdown(str):
    """A cell that is Markdown already, on one line."""

    __slots__ = ()


Text = str | Sequence[str]


@dataclass(frozen=True)
class Paragraph:
    """A text of ours, with what settings say in it."""

    text: Text


@dataclass(frozen=True)
class Bullets:
    """A list of short texts of ours."""

    texts: Sequence[Text]


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
    facts: Mapping[str, Text]
    commands: Mapping[str, str]  # by their names


Block = Paragraph | Bullets | Table | Figure | Texts | Details
Sections = Mapping[str, Sequence[Block]]  # the blocks of a page by their headings


def as_markdown(title: str, sections: Sections) -> str:
    """Return the text of a Markdown file; a picture is left out, its figures are printed."""
    return f"# {_escaped(title)}\n\n{sections_as_markdown(sections, level=2)}"


def sections_as_markdown(sections: Sections, level: int) -> str:
    """Return the Markdown of sections whose headings have a level."""
    return "\n".join(
        f"{'#' * level} {heading}\n\n{blocks_as_markdown(blocks)}"
        for heading, blocks in sections.items()
    )


def blocks_as_markdown(blocks: Sequence[Block]) -> str:
    """Return the Markdown of blocks that stand below each other without headings."""
    return "\n\n".join("\n".join(_lines(block)) for block in blocks) + "\n"


def _lines(block: Block) -> list[str]:
    match block:
        case Paragraph(text):
            return [_inline(text)]
        case Bullets(texts):
            return [f"- {_inline(text)}" for text in texts]
        case Table(header, rows, left):
            return _table_lines([header, *rows], left)
        case Figure(_, caption, table):
            return [caption, "", *_lines(table)]
        case Texts(title, texts):
            lines = (f"- {_escaped(name)}: {_escaped(text)}" for name, text in texts)
            return [title, "", *lines]
        case Details(summary, facts, commands):
            script = [line for pair in commands.items() for line in (f"# {pair[0]}", pair[1])]
            return [
                "<details>",
                f"<summary>{escape(one_line(summary))}</summary>",
                "",
                *(f"- {what}: {_inline(text)}" for what, text in facts.items()),
                *(["", *_code_lines(script)] if script else []),
                "",
                "</details>",
            ]


def _table_lines(rows: Sequence[Sequence[str]], left: int) -> list[str]:
    """Return the lines of an aligned table; the first row is its header."""
    cells = [[_escaped(cell) for cell in row] for row in rows]
    widths = [max(3, *map(len, column)) for column in zip(*cells, strict=True)]
    rule = ["-" * w if k < left else "-" * (w - 1) + ":" for k, w in enumerate(widths)]
    cells.insert(1, rule)
    lines = (
        [f"{cell:<{w}}" if k < left else f"{cell:>{w}}" for k, (cell, w) in enumerate(pairs)]
        for pairs in (zip(row, widths, strict=True) for row in cells)
    )
    return [f"| {' | '.join(line)} |" for line in lines]


def _code_lines(lines: Sequence[str]) -> list[str]:
    """Return shell commands between fences that are longer than any run of backticks in them."""
    return [f"{_backticks(lines, 3)}sh", *lines, _backticks(lines, 3)]


def _backticks(texts: Sequence[str], fewest: int) -> str:
    """Return more backticks than stand in a row in any of the texts."""
    longest = max((len(run) for text in texts for run in re.findall("`+", text)), default=0)
    return "`" * max(fewest, longest + 1)


def one_line(text: str) -> str:
    """Replace line breaks and control characters by spaces."""
    breaking = ("Cc", "Zl", "Zp")
    return "".join(" " if unicodedata.category(c) in breaking else c for c in text)


def _inline(text: Text) -> str:
    return "".join(map(_span, [text] if isinstance(text, str) else text))


def _span(part: str) -> str:
    if not isinstance(part, Code):
        return _escaped(part)
    fence, space = _backticks([part], 1), " " if "`" in part else ""
    return f"{fence}{space}{one_line(part)}{space}{fence}"


def _escaped(text: str) -> str:
    """Return a text on one line in which neither HTML nor Markdown takes effect."""
    if isinstance(text, Markdown):
        return text.replace("|", "\\|")
    return ACTIVE.sub(lambda match: f"\\{match[0]}", one_line(text))


def as_html(title: str, sections: Sections) -> str:
    """Return the text of an HTML file that needs nothing else and runs no script; no text of a run
    is markup in it."""
    from jinja2 import Environment  # here: `aiayn rows` needs no HTML
    from markupsafe import Markup

    here = files("fairseq_aiayn.report")
    styles = files("fairseq_aiayn.attention_maps") / "page_style.css", here / "report.css"
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters["parts"] = lambda text: [text] if isinstance(text, str) else text
    environment.filters["anchor"] = _anchor
    environment.filters["one_line"] = one_line
    environment.tests["code"] = lambda part: isinstance(part, Code)
    template = environment.from_string((here / "report.html").read_text(encoding="utf-8"))
    style = "".join(sheet.read_text(encoding="utf-8") for sheet in styles)
    return template.render(title=title, sections=sections, style=Markup(style))


def _anchor(title: str) -> str:
    """Return the id of a section."""
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def as_json(content: Mapping) -> str:
    """Return the text of a JSON file; infinities and NaN, which JSON lacks, are null."""
    text = json.dumps(_finite(content), indent=2, ensure_ascii=False, allow_nan=False)
    return f"{text}\n"


def _finite(content: object) -> object:
    if isinstance(content, Mapping):
        return {key: _finite(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content

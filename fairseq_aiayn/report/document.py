"""The blocks of tables and pages, which are written as Markdown and as HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Paragraph:
    """A text of ours; code stands between backticks."""

    text: str


@dataclass(frozen=True)
class Bullets:
    """A list of short texts of ours."""

    texts: Sequence[str]


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
class Folded:
    """Facts and commands that a reader sees after unfolding them."""

    summary: str
    facts: Mapping[str, str]
    commands: Mapping[str, str]  # by their names


Block = Paragraph | Bullets | Table | Figure | Texts | Folded


@dataclass(frozen=True)
class Section:
    """Blocks under a heading."""

    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Document:
    """A page."""

    title: str
    sections: Sequence[Section]

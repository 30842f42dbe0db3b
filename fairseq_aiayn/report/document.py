"""What a page is made of, whatever it is written as."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Paragraph:
    """Words of ours: `code` stands between backticks."""

    text: str


@dataclass(frozen=True)
class Table:
    """Cells under a header; all columns but the first `left` hold numbers."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: int = 1


@dataclass(frozen=True)
class Figure:
    """A picture, and its figures as a table for those who cannot see it or want to copy them."""

    svg: str
    caption: str
    table: Table


@dataclass(frozen=True)
class Texts:
    """Words of others, one below the other, each with its name."""

    title: str
    texts: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Folded:
    """What only some readers want to see."""

    summary: str
    facts: Mapping[str, str]
    commands: Mapping[str, str]  # by their names


Block = Paragraph | Table | Figure | Texts | Folded


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

"""A document as Markdown; of its pictures only the figures."""

from __future__ import annotations

import re

from fairseq_aiayn.evaluation.markdown_table import aligned_table, folded
from fairseq_aiayn.report.document import (
    Block,
    Document,
    Figure,
    Folded,
    Paragraph,
    Table,
    Texts,
)

MARKUP = re.compile(r"[\\`*_\[\]<>&#~]")


def as_markdown(document: Document) -> str:
    """Return the text of a Markdown file."""
    lines = [f"# {document.title}"]
    for section in document.sections:
        lines += ["", f"## {section.title}"]
        for block in section.blocks:
            lines += ["", *_lines(block)]
    return "\n".join(lines) + "\n"


def _lines(block: Block) -> list[str]:
    match block:
        case Paragraph(text):
            return [text]
        case Table(header, rows, left):
            return aligned_table([header, *rows], left)
        case Figure(_, caption, table):
            return [caption, "", *_lines(table)]
        case Texts(title, texts):
            return [f"{title}:", "", *(f"- {name}: {_literal(text)}" for name, text in texts)]
        case Folded(summary, facts, commands):
            return folded(summary, facts, commands)


def _literal(text: str) -> str:
    """A text in which nothing is markup."""
    return MARKUP.sub(lambda match: f"\\{match[0]}", text)

"""A document as Markdown; of its pictures only the figures."""

from __future__ import annotations

from fairseq_aiayn.files.markdown_table import aligned_table, folded, literal
from fairseq_aiayn.report.document import (
    Block,
    Document,
    Figure,
    Folded,
    Paragraph,
    Table,
    Texts,
)


def as_markdown(document: Document) -> str:
    """Return the text of a Markdown file."""
    lines = [f"# {literal(document.title)}"]
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
            return [
                f"{title}:",
                "",
                *(f"- {literal(name)}: {literal(text)}" for name, text in texts),
            ]
        case Folded(summary, facts, commands):
            return folded(summary, facts, commands)

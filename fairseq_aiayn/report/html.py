"""A document as one HTML file that needs nothing else and runs no script."""

from __future__ import annotations

import re
from importlib.resources import files

from jinja2 import Environment
from markupsafe import Markup, escape

from fairseq_aiayn.report.document import Document
from fairseq_aiayn.text import one_line

HERE = files("fairseq_aiayn.report")
STYLES = (files("fairseq_aiayn.attention_maps") / "page_style.css", HERE / "report.css")


def as_html(document: Document) -> str:
    """Return the text of an HTML file, in which no text of a run is markup."""
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters["code"] = code
    environment.filters["anchor"] = anchor
    environment.filters["one_line"] = one_line
    template = environment.from_string((HERE / "report.html").read_text(encoding="utf-8"))
    style = "".join(sheet.read_text(encoding="utf-8") for sheet in STYLES)
    return template.render(document=document, style=Markup(style))


def code(text: str) -> Markup:
    """Return a text with code elements for what stands between backticks, and the rest escaped."""
    parts = text.split("`")
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if k % 2 else escape(part)
        for k, part in enumerate(parts)
    )


def anchor(title: str) -> str:
    """Return the id of a section."""
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")

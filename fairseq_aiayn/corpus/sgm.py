"""The sentences of WMT's test sets, which come as SGML."""

from __future__ import annotations

import html
import re
from html.entities import html5

SEGMENT = re.compile(
    r"<seg(?:\s[^>]*)?>(?P<text>.*?)(?P<end></seg\s*>|(?=<seg[\s>])|\Z)", re.IGNORECASE | re.DOTALL
)
ENTITY = re.compile(r"&(?:#\w+|(?P<name>\w+));")
# ASCII only: French no-break spaces belong to the text.
WHITE_SPACE = re.compile(r"[ \t\n\r\f\v]+")


def read_segments(text: str) -> list[str]:
    """Return the text of each <seg> as one line, with its entities replaced.

    Raises ValueError if there is no segment, or if one is empty or not closed.
    """
    segments = []
    for number, segment in enumerate(SEGMENT.finditer(text), start=1):
        if not segment["end"]:
            raise ValueError(f"segment {number} must end with </seg>, does not")
        # Entities come first: they may stand for white space.
        line = ENTITY.sub(_character, segment["text"])
        segments.append(WHITE_SPACE.sub(" ", line).strip(" "))
        if not segments[-1].strip():
            raise ValueError(f"segment {number} is empty")
    if not segments:
        raise ValueError("must have segments <seg>...</seg>, has none")
    return segments


def _character(entity: re.Match[str]) -> str:
    """Replace an entity if it is complete and known; html.unescape alone replaces "&para", too."""
    known = entity["name"] is None or f"{entity['name']};" in html5
    return html.unescape(entity[0]) if known else entity[0]

"""Attention as a self-contained HTML page, on which a reader chooses layer, heads and word."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Sequence
from importlib import resources
from urllib.parse import urlencode

from fairseq_aiayn.attention_maps.weights import (
    KINDS,
    VISIBLE,
    AttentionMap,
    Selection,
    merge_words,
)
from fairseq_aiayn.console import one_line
from fairseq_aiayn.palette import line_colour

__all__ = ["attention_page", "view_of"]

LEVELS = 4095  # a weight is stored as a whole number of 1/4095: short in the page
STYLES = ("page_style.css", "attention_page.css")


def attention_page(maps: Sequence[AttentionMap], title: str, start: str, translation: str) -> str:
    """Return a self-contained HTML page of the maps, each of another kind, with a translation under
    the title; it opens with the view `start` of `view_of`, unless its address has one."""
    script = _read("attention_page.js")
    content = {
        "colours": [line_colour(head) for head in range(max(len(m.weights[0]) for m in maps))],
        "maps": [_content(shown) for shown in maps],
        "most": LEVELS,
        "visible": VISIBLE,
        "start": start,
    }
    parts = {
        "title": html.escape(one_line(title)),
        "translation": html.escape(one_line(translation)),
        "style": "".join(_read(name) for name in STYLES),
        # Safe in a script element
        "data": json.dumps(content, separators=(",", ":")).replace("<", "\\u003c"),
        "script": script,
        "digest": base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    }
    # In a single pass, since a title may contain {{data}}.
    return re.sub(r"\{\{(\w+)\}\}", lambda name: parts[name[1]], _read("attention_page.html"))


def view_of(selection: Selection, words: str) -> str:
    """Return a view of the page, of words that are whole or pieces, as its address's fragment."""
    chosen = {
        "kind": selection.map.kind,
        "layer": selection.layer + 1,
        "heads": ",".join(str(head + 1) for head in selection.heads),
        "words": words,
    }
    if len(selection.queries) < len(selection.map.queries):
        chosen["query"] = selection.queries[0] + 1
    return urlencode(chosen)


def _content(shown: AttentionMap) -> dict[str, object]:
    """Return a map as the page reads it, of pieces and, unless they are the same, of words."""
    kind, words = KINDS[shown.kind], merge_words(shown)
    is_same = (words.queries, words.keys) == (shown.queries, shown.keys)
    return {
        "kind": shown.kind,
        "name": shown.kind.capitalize(),
        "title": kind.title,
        "layer": shown.usual_layer - 1,
        "titles": {"query": kind.queries, "key": kind.keys},
        "pieces": _weights(shown),
        "whole": None if is_same else _weights(words),
    }


def _weights(shown: AttentionMap) -> dict[str, object]:
    """Return words and weights, these as levels up to LEVELS, in the order of [N, h, Q, K]."""
    layers, heads = shown.weights.shape[:2]
    levels = (shown.weights.float().clamp(max=1) * LEVELS).round().int()
    return {
        "query": [*map(one_line, shown.queries)],
        "key": [*map(one_line, shown.keys)],
        "layers": layers,
        "heads": heads,
        "levels": levels.flatten().tolist(),
    }


def _read(name: str) -> str:
    return (resources.files("fairseq_aiayn.attention_maps") / name).read_text(encoding="utf-8")

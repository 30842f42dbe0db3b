"""Attention as a self-contained HTML page, on which a reader chooses layer, heads and word."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Sequence
from dataclasses import asdict
from importlib import resources
from urllib.parse import urlencode

import numpy as np

from fairseq_aiayn.attention_maps.weights import KINDS, AttentionMap, Selection, merge_words
from fairseq_aiayn.palette import LINE_COLOURS

LEVELS = 4095  # a weight is stored as a whole number of 1/4095
STYLES = ("page_style.css", "attention_page.css")
SCRIPTS = ("attention_drawing.js", "attention_controls.js")  # joined, in this order, into one


def attention_page(maps: Sequence[AttentionMap], title: str, start: str = "") -> str:
    """Return a self-contained HTML page of the maps, each of another kind.

    The page opens with the view `start`, a fragment from `view_of`, unless its address has a
    fragment. Most of its size are the weights, at 8/3 bytes each. Raises ValueError for weights
    outside 0 to 1.
    """
    script = "\n".join(_read(name) for name in SCRIPTS)
    parts = {
        "title": html.escape(title),
        "style": "".join(_read(name) for name in STYLES),
        "data": _data_block(maps, start),
        "script": script,
        "digest": base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    }
    # In a single pass, since a title may contain {{data}}.
    return re.sub(r"\{\{(\w+)\}\}", lambda name: parts[name[1]], _read("attention_page.html"))


def view_of(selection: Selection, view: str, words: str) -> str:
    """Return a view of the page as a fragment of its address.

    `view` is lines or heat, `words` is whole or pieces.
    """
    chosen = {
        "kind": selection.map.kind,
        "layer": selection.layer + 1,
        "heads": ",".join(str(head + 1) for head in selection.heads),
        "view": view,
        "words": words,
    }
    if selection.isolated:
        chosen["query"] = selection.queries[0] + 1
    return urlencode(chosen)


def _data_block(maps: Sequence[AttentionMap], start: str) -> str:
    """Return the maps as JSON that is safe in a script element: without <, ASCII only."""
    content = {
        "colours": LINE_COLOURS,
        "kinds": {pieces.kind: asdict(KINDS[pieces.kind]) for pieces in maps},
        "maps": [_content(pieces) | {"whole": _whole_words(pieces)} for pieces in maps],
        "start": start,
    }
    return json.dumps(content).replace("<", "\\u003c")


def _content(attention: AttentionMap) -> dict[str, object]:
    layers, heads = attention.weights.shape[:2]
    return {
        "kind": attention.kind,
        "queries": attention.queries,
        "keys": attention.keys,
        "layers": layers,
        "heads": heads,
        "weights": _encode(attention),
    }


def _whole_words(pieces: AttentionMap) -> dict[str, object] | None:
    """Return the map of whole words; None if every piece is a word already."""
    words = merge_words(pieces)
    is_same = (words.queries, words.keys) == (pieces.queries, pieces.keys)
    return None if is_same else _content(words)


def _encode(attention: AttentionMap) -> str:
    """Return the weights as base64 of 16 bits each, in the order of [N, h, Q, K]."""
    weights = attention.weights.detach().cpu().double().numpy()
    outside = weights[~((weights >= 0) & (weights <= 1 + 1e-4))]
    if outside.size:
        raise ValueError(f"weights of {attention.kind} must lie in 0 to 1, got {outside[0]:g}")
    levels = np.rint(weights.clip(max=1) * LEVELS).astype("<u2")
    return base64.b64encode(levels.tobytes()).decode()


def _read(name: str) -> str:
    return (resources.files("fairseq_aiayn.attention_maps") / name).read_text(encoding="utf-8")

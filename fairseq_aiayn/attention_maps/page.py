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
    shown = [_content(one) | {"whole": _whole_words(one)} for one in maps]
    kinds = {one.kind: asdict(KINDS[one.kind]) for one in maps}
    content = {"colours": LINE_COLOURS, "kinds": kinds, "maps": shown, "start": start}
    return json.dumps(content).replace("<", "\\u003c")


def _content(one: AttentionMap) -> dict[str, object]:
    layers, heads = one.weights.shape[:2]
    return {
        "kind": one.kind,
        "queries": one.queries,
        "keys": one.keys,
        "layers": layers,
        "heads": heads,
        "weights": _encode(one),
    }


def _whole_words(pieces: AttentionMap) -> dict[str, object] | None:
    """Return the map of whole words; None if every piece is a word already."""
    words = merge_words(pieces)
    if (words.queries, words.keys) == (pieces.queries, pieces.keys):
        return None
    return _content(words)


def _encode(one: AttentionMap) -> str:
    """Return the weights as base64 of 16 bits each, in the order of [N, h, Q, K]."""
    weights = one.weights.detach().cpu().double().numpy()
    outside = ~((weights >= 0) & (weights <= 1 + 1e-4))
    if outside.any():
        raise ValueError(f"weights of {one.kind} must lie in 0 to 1, got {weights[outside][0]:g}")
    levels = np.rint(weights.clip(max=1) * LEVELS).astype("<u2")
    return base64.b64encode(levels.tobytes()).decode()


def _read(name: str) -> str:
    return (
        resources.files("fairseq_aiayn.attention_maps").joinpath(name).read_text(encoding="utf-8")
    )

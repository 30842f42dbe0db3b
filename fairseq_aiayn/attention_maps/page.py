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

import numpy as np

from fairseq_aiayn.attention_maps.weights import AttentionMap, Selection, words_of_pieces
from fairseq_aiayn.palette import LINE_COLOURS

LARGEST_PAGE = 1_000_000  # bytes
DIGITS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
LEVELS = len(DIGITS) ** 2 - 1  # a weight has two digits, with a rounding error of at most 1/8190
STYLES = ("page_style.css", "attention_page.css")
SCRIPTS = (  # joined, in this order, into one script
    "attention_data.js",
    "attention_drawing.js",
    "attention_controls.js",
    "attention_words.js",
    "attention_start.js",
)


def attention_page(maps: Sequence[AttentionMap], title: str, start: str = "") -> str:
    """Return a self-contained HTML page of the maps, which must be of different kinds.

    The page opens with the view `start`, a fragment from `view_of`, unless its address has a
    fragment. Raises ValueError for no map, two maps of a kind, weights outside 0 to 1, or a page of
    more than 1 MB; most of its size are the weights, at two bytes per weight.
    """
    _require_kinds([one.kind for one in maps])
    _require_size(2 * sum(one.weights.numel() for one in maps))
    script = "\n".join(_read(name) for name in SCRIPTS)
    parts = {
        "title": html.escape(title),
        "style": "".join(_read(name) for name in STYLES),
        "data": _data_block(maps, start),
        "script": script,
        "digest": base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    }
    # In a single pass, since a title may contain {{data}}.
    page = re.sub(r"\{\{(\w+)\}\}", lambda name: parts[name[1]], _read("attention_page.html"))
    _require_size(len(page.encode()))
    return page


def _require_kinds(kinds: list[str]) -> None:
    if not kinds:
        raise ValueError("maps must have at least one AttentionMap, has none")
    if len(set(kinds)) < len(kinds):
        raise ValueError(f"maps must be of different kinds, got {', '.join(kinds)}")


def _require_size(size: int) -> None:
    """Raise ValueError if a page of at least `size` bytes is too large."""
    if size > LARGEST_PAGE:
        raise ValueError(
            f"the page must have at most {LARGEST_PAGE:,} bytes, would have {size:,} or more: "
            "take one kind of attention, or a shorter sentence"
        )


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
    shown = [_content(one) for one in maps]
    content = {"colours": LINE_COLOURS, "maps": shown, "start": start}
    return json.dumps(content).replace("<", "\\u003c")


def _content(one: AttentionMap) -> dict:
    layers, heads = one.weights.shape[:2]
    return {
        "kind": one.kind,
        "queries": one.queries,
        "keys": one.keys,
        "words": _words(one),
        "layers": layers,
        "heads": heads,
        "weights": _encode(one),
    }


def _words(one: AttentionMap) -> dict | None:
    """Return the texts of each side's words, and for every piece the number of its word, from 0.

    Returns None if every piece is a word already.
    """
    sides = {}
    for side, pieces in (("queries", one.queries), ("keys", one.keys)):
        words = words_of_pieces(pieces)
        numbers = [number for number, word in enumerate(words) for _ in word.pieces]
        sides[side] = {"texts": [word.text for word in words], "of": numbers}
    merged = any(sides[side]["texts"] != [*getattr(one, side)] for side in sides)
    return sides if merged else None


def _encode(one: AttentionMap) -> str:
    """Return the weights as two digits each, in the order of [N, h, Q, K]."""
    weights = one.weights.detach().cpu().double().numpy().ravel()
    outside = ~((weights >= 0) & (weights <= 1 + 1e-4))
    if outside.any():
        raise ValueError(f"weights of {one.kind} must lie in 0 to 1, got {weights[outside][0]:g}")
    levels = np.rint(weights.clip(max=1) * LEVELS).astype(np.int64)
    digits = np.frombuffer(DIGITS, np.uint8)
    return digits[np.stack([levels // 64, levels % 64], axis=-1)].tobytes().decode("ascii")


def _read(name: str) -> str:
    return (
        resources.files("fairseq_aiayn.attention_maps").joinpath(name).read_text(encoding="utf-8")
    )

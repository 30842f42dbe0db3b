"""Words in a picture: their fonts, their widths, and the titles above them."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from functools import cache

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, fontManager, get_font

from fairseq_aiayn.inspection.selection import Selection

FAMILY = "DejaVu Sans"  # part of matplotlib
LAST_RESORT = "Last Resort High-Efficiency"  # part of matplotlib; has a box for every character
NOT_FOR_TEXT = ("cm", "STIX", "Last Resort", "DejaVu")
LONGEST_WORD = 32  # characters
DPI = 100  # for measuring widths
INK, FAINT = "#1b1b1f", "#77777f"

TITLES = {
    "encoder": "Encoder self-attention",
    "decoder": "Decoder self-attention",
    "cross": "Encoder-decoder attention",
}
# The captions of the words that attend and of the words that they attend to
COLUMNS = {
    "encoder": ("source", "attends to source"),
    "decoder": ("word being written", "attends to words read"),
    "cross": ("word being written", "attends to source"),
}


def title(selection: Selection) -> str:
    """Return the title of a picture: kind and layer."""
    shown = selection.map
    return f"{TITLES[shown.kind]}, layer {selection.layer + 1} of {shown.weights.size(0)}"


def label(word: str) -> str:
    """Return a word without control characters, which XML forbids, and cut if it is very long."""
    visible = "".join("\ufffd" if _is_not_text(c) else c for c in word)
    return visible if len(visible) <= LONGEST_WORD else f"{visible[: LONGEST_WORD - 1]}…"


def _is_not_text(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Cs") or character in "\ufffe\uffff"


def families(texts: Iterable[str]) -> list[str]:
    """Return installed fonts that together cover the texts' characters as far as possible."""
    missing = {c for text in texts for c in text} - _characters(_path(FAMILY))
    found = [FAMILY]
    for entry in fontManager.ttflist if missing else ():
        if entry.name.startswith(NOT_FOR_TEXT) or (entry.style, entry.weight) != ("normal", 400):
            continue
        here = missing & _characters(entry.fname)
        if here:
            found.append(entry.name)
            missing -= here
    return [*found, LAST_RESORT, "sans-serif"]


def undrawable(texts: Iterable[str]) -> str:
    """Return the characters that no installed font has; a PNG or PDF shows boxes for them."""
    shown = [label(text) for text in texts]
    have = frozenset().union(*(_characters(_path(name)) for name in families(shown)[:-2]))
    return "".join(sorted({c for text in shown for c in text} - have))


def _path(name: str) -> str:
    return findfont(FontProperties(family=name))


@cache
def _characters(path: str) -> frozenset[str]:
    return frozenset(map(chr, get_font(path).get_charmap()))


class Writer:
    """Writes words of `size` points, in fonts that have the characters of `texts`.

    Characters that no installed font has become boxes. matplotlib's libraqm shapes scripts and
    draws right-to-left words.
    """

    def __init__(self, texts: Iterable[str], size: float):
        self.size = size
        self.families = families(texts)
        self._font = FontProperties(family=self.families, size=size)
        self._renderer = FigureCanvasAgg(Figure(dpi=DPI)).get_renderer()

    def width(self, texts: Iterable[str]) -> float:
        """Return the width of the widest text in inches, or 0 without texts."""
        measure = self._renderer.get_text_width_height_descent
        widths = (measure(text, self._font, False)[0] for text in texts)
        return max(widths, default=0.0) / DPI

    def __call__(
        self,
        axes: Axes,
        x: float,
        y: float,
        text: str,
        align: str = "left",
        colour: str = INK,
        rotation: float = 0,
    ) -> None:
        """Write a text at x with its middle at y; a rotated text is centred at x, its top at y."""
        axes.text(
            *(x, y, text),
            fontproperties=self._font,
            color=colour,
            horizontalalignment="center" if rotation else align,
            verticalalignment="top" if rotation else "center",
            rotation=rotation,
            parse_math=False,  # a word may contain dollar signs
        )

"""Words as a picture writes them: their fonts, their widths, and what stands above them."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from functools import cache

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, fontManager, get_font

from fairseq_aiayn.inspection.selection import Selection

FAMILY = "DejaVu Sans"  # comes with matplotlib
LAST_RESORT = "Last Resort High-Efficiency"  # as well: a box for every character
NOT_FOR_TEXT = ("cm", "STIX", "Last Resort", "DejaVu")
LONGEST_WORD = 32  # characters
DPI = 100  # in which widths are measured
INK, FAINT = "#1b1b1f", "#77777f"

TITLES = {
    "encoder": "Encoder self-attention",
    "decoder": "Decoder self-attention",
    "cross": "Encoder-decoder attention",
}
# What a row of words is: who attends, and to what
COLUMNS = {
    "encoder": ("source", "attends to source"),
    "decoder": ("word being written", "attends to words read"),
    "cross": ("word being written", "attends to source"),
}


def title(selection: Selection) -> str:
    """The heading of a picture: kind and layer."""
    shown = selection.map
    return f"{TITLES[shown.kind]}, layer {selection.layer + 1} of {shown.weights.size(0)}"


def label(word: str) -> str:
    """A word without what XML cannot have (control characters), cut where it is very long."""
    visible = "".join("\ufffd" if _is_not_text(c) else c for c in word)
    return visible if len(visible) <= LONGEST_WORD else f"{visible[: LONGEST_WORD - 1]}…"


def _is_not_text(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Cs") or character in "\ufffe\uffff"


def families(texts: Iterable[str]) -> list[str]:
    """Fonts that together have the characters of the texts, as far as they are installed."""
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
    """The characters that no installed font has, of which a PNG or PDF shows boxes."""
    shown = [label(text) for text in texts]
    have = frozenset().union(*(_characters(_path(name)) for name in families(shown)[:-2]))
    return "".join(sorted({c for text in shown for c in text} - have))


def _path(name: str) -> str:
    return findfont(FontProperties(family=name))


@cache
def _characters(path: str) -> frozenset[str]:
    return frozenset(map(chr, get_font(path).get_charmap()))


class Writer:
    """Writes words in fonts that have the characters of `texts`, `size` points large.

    Characters that no installed font has are boxes. Scripts are shaped, and words from right to
    left drawn so, by matplotlib's libraqm.
    """

    def __init__(self, texts: Iterable[str], size: float):
        self.size = size
        self.families = families(texts)
        self._font = FontProperties(family=self.families, size=size)
        self._renderer = FigureCanvasAgg(Figure(dpi=DPI)).get_renderer()

    def width(self, texts: Iterable[str]) -> float:
        """Inches of the widest; 0 without any."""
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
        """Write at a place of the axes, with the text's middle at y; turned, with its end at y."""
        axes.text(
            *(x, y, text),
            fontproperties=self._font,
            color=colour,
            horizontalalignment="center" if rotation else align,
            verticalalignment="top" if rotation else "center",
            rotation=rotation,
            parse_math=False,  # a word may have dollar signs
        )

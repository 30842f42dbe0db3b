"""The colours of a style sheet, and how well one can be read on another."""

from __future__ import annotations

import re
from pathlib import Path


def luminance(colour: str) -> float:
    """The relative luminance of #rrggbb, as WCAG 2 defines it."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str) -> float:
    """WCAG's contrast ratio, 1 to 21."""
    darker, lighter = sorted(map(luminance, (one, other)))
    return (lighter + 0.05) / (darker + 0.05)


def colours_of(style: Path) -> list[dict[str, str]]:
    """The colours of a style sheet by name, in light and in dark."""
    light, dark = style.read_text(encoding="utf-8").split("@media", 2)[:2]
    return [dict(re.findall(r"--([\w-]+): (#\w{6})", part)) for part in (light, dark)]

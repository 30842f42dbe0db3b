"""The colours of attention heads, in every picture."""

from __future__ import annotations

# On white and on #16181d each has a contrast of 3:1 or more, and they differ for readers without
# red or without green cones too (Machado et al.'s matrices; OKLab distance 0.06 or more).
HEAD_COLOURS = (
    "#1560ee",  # blue
    "#b04a00",  # brown
    "#007d5a",  # green
    "#bb3399",  # magenta
    "#5599cc",  # sky
    "#998800",  # olive
    "#9977ff",  # lilac
    "#cc7777",  # rose
)


def head_colour(head: int) -> str:
    """Return the colour of a head, counted from 0, as #rrggbb; the ninth has the first's again.

    Sixteen colours could not be told apart, so pictures write the head's number beside its colour.
    """
    return HEAD_COLOURS[head % len(HEAD_COLOURS)]

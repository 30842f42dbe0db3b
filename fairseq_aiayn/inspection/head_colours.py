"""The colours of attention heads, the same in every picture."""

from __future__ import annotations

# Each has a contrast of at least 3:1 on white and on #16181d. They also differ for readers without
# red or green cones (Machado et al.'s matrices; OKLab distance of at least 0.06).
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
    """Return the colour of a head, counted from 0, as #rrggbb.

    Colours repeat after eight heads: sixteen could not be told apart. So pictures write the head's
    number beside its colour.
    """
    return HEAD_COLOURS[head % len(HEAD_COLOURS)]

"""The colours of attention heads, the same in every picture."""

from __future__ import annotations

from fairseq_aiayn.palette import LINE_COLOURS


def head_colour(head: int) -> str:
    """Return the colour of a head, counted from 0, as #rrggbb.

    Colours repeat after eight heads: sixteen could not be told apart. So pictures write the head's
    number beside its colour.
    """
    return LINE_COLOURS[head % len(LINE_COLOURS)]

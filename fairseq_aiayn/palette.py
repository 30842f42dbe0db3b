"""The colours of lines in pictures: of attention heads, and of runs."""

# Each has a contrast of at least 3:1 on white and on #16181d. They also differ for readers without
# red or green cones (Machado et al.'s matrices; OKLab distance of at least 0.06).
LINE_COLOURS = (
    "#1560ee",  # blue
    "#b04a00",  # brown
    "#007d5a",  # green
    "#bb3399",  # magenta
    "#5599cc",  # sky
    "#998800",  # olive
    "#9977ff",  # lilac
    "#cc7777",  # rose
)


def line_colour(place: int) -> str:
    """Return the colour of a head or a run, counted from 0, as #rrggbb. Colours repeat after eight:
    sixteen could not be told apart. So pictures write the head's number beside its colour, and a
    ninth run has other dashes."""
    return LINE_COLOURS[place % len(LINE_COLOURS)]

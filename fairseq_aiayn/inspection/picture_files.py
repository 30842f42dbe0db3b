"""Write figures to files that appear whole or not at all."""

from __future__ import annotations

import warnings
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from fairseq_aiayn.files.whole import whole_path

FORMATS = (".png", ".svg", ".pdf")
DPI = 160  # of PNG
# Text in SVG stays text: it can be searched, and the reader's fonts are used.
STYLE = {"svg.fonttype": "none", "svg.hashsalt": "fairseq_aiayn", "pdf.fonttype": 42}
NO_DATE = {".png": {}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}


def save_picture(figure: Figure, path: Path) -> None:
    """Write a figure in the format of the path's suffix, one of FORMATS.

    The same figure gives the same bytes at any time. Raises ValueError for another suffix, OSError
    if the file cannot be written.
    """
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        raise ValueError(
            f"{path}: a picture must be {', '.join(FORMATS)}, is {suffix or 'neither'}"
        )
    with whole_path(path) as part, matplotlib.rc_context(STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # drawn as a box
        figure.savefig(part, format=suffix[1:], dpi=DPI, metadata=NO_DATE[suffix])

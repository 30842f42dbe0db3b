"""Check a dictionary before it is used, and name the file and the line of a fault.

fairseq's own errors name neither the file nor the line.
"""

from __future__ import annotations

from pathlib import Path
from typing import TextIO

from fairseq.data import Dictionary
from fairseq.file_io import PathManager

from fairseq_aiayn.inference.folder import read_vocabulary
from fairseq_aiayn.plugin.guards.checked import checked


def install() -> None:
    """Make fairseq check every dictionary before it loads it."""
    Dictionary.add_from_file = checked(Dictionary.add_from_file, require_named)


def require_named(dictionary: Dictionary, file: str | TextIO) -> None:
    """Raise ValueError, with the file and the line, for a fault in the file of a dictionary.

    Given a file name, fairseq loads the open file in a second call, which needs no check.
    """
    if isinstance(file, str):
        read_vocabulary(Path(PathManager.get_local_path(file)), dictionary.symbols)

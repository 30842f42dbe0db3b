"""Check a dictionary before it is used, and name the file and the line of a fault.

fairseq's own errors name neither the file nor the line.
"""

from __future__ import annotations

from pathlib import Path
from typing import TextIO

from fairseq.data import Dictionary
from fairseq.file_io import PathManager

from fairseq_aiayn.checkpoints.reading import require_plain_file
from fairseq_aiayn.plugin.guards.checked import checked

REPLACES = "#fairseq:overwrite"  # at the end of a line whose word may already be there
BYTE_ORDER_MARK = "\ufeff"


def install() -> None:
    """Make fairseq check every dictionary before it loads it."""
    Dictionary.add_from_file = checked(Dictionary.add_from_file, require_named)


def require_named(dictionary: Dictionary, file: str | TextIO) -> None:
    """Raise ValueError, with the file and the line, for a fault in the file of a dictionary.

    Given a file name, fairseq loads the open file in a second call, which needs no check.
    """
    if isinstance(file, str):
        require_dictionary(Path(PathManager.get_local_path(file)), set(dictionary.symbols))


def require_dictionary(path: Path, known: set[str]) -> None:
    """Raise ValueError unless each line has a word that is not `known` yet and its number of
    occurrences.

    Raises OSError for a missing file.
    """
    require_plain_file(path)
    try:
        lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        number = error.object[: error.start].count(b"\n") + 1
        raise ValueError(f"{path}:{number}: must be UTF-8, is not") from None
    if lines == [""]:
        raise ValueError(f"{path}: must have one word per line, is empty")
    if lines[0].startswith(BYTE_ORDER_MARK):
        raise ValueError(f"{path}:1: must begin with a word, begins with a byte order mark")
    for number, line in enumerate(lines, start=1):
        word, _, count = line.rstrip().rpartition(" ")
        replaces = count == REPLACES
        if replaces:
            word, _, count = word.rpartition(" ")
        if not word.strip() or not (count.isascii() and count.isdigit() and len(count) < 19):
            raise ValueError(
                f"{path}:{number}: must be a word and how often it occurs, is {line[:60]!r}"
            )
        if word in known and not replaces:
            raise ValueError(f"{path}:{number}: must be a new word, {word[:60]!r} is there already")
        known.add(word)

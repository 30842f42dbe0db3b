"""What an attacker would put into a checkpoint."""

import os
from pathlib import Path


class Intruder:
    """Creates the file `mark` by a shell command when it is unpickled without a guard."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple:
        return os.system, (f"touch {self.mark}",)


def expression(mark: Path) -> str:
    """Python that leaves a mark where it is evaluated, and looks like numbers to what reads it."""
    return f"__import__('pathlib').Path({str(mark)!r}).touch() or [(8, 3)]"

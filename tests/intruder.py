"""What an attacker would put into a checkpoint."""

import os
from pathlib import Path


class Intruder:
    """Creates the file `mark` by a shell command when it is unpickled without a guard."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple:
        return os.system, (f"touch {self.mark}",)

"""The module of fairseq-train, however it was started."""

from __future__ import annotations

import sys
from types import ModuleType

from fairseq_aiayn.plugin.guards.error_frames import module_name

TRAIN = "fairseq_cli.train"


def training_program() -> ModuleType | None:
    """Return the module whose functions fairseq-train calls; None in other commands.

    A program started with `python -m fairseq_cli.train`, or by torchrun, is `__main__`.
    """
    program = sys.modules["__main__"]
    return program if module_name(vars(program)) == TRAIN else sys.modules.get(TRAIN)

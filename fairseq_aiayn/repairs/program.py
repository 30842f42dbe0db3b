"""The command of fairseq that runs, and its options."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

__all__ = ["TRAIN", "TRAINING", "command_name"]

TRAIN = "fairseq_cli.train"  # a module, and the logger that writes to --log-file
HYDRA = "fairseq-hydra-train"
TRAINING = ("fairseq-train", HYDRA)
SEARCHING = ("fairseq-generate", "fairseq-interactive", "fairseq-validate")
LANGUAGES = ("source_lang", "target_lang")
given: dict[str, Any] = {}  # what it was given, once that is parsed
hydra_names: dict[str, str] = {}  # what fairseq-hydra-train calls the options of commands


def command_name(program: str) -> str | None:
    """Return the name of the fairseq command that was started as `program`, else None."""
    path = Path(program)
    if path.stem.startswith("fairseq-"):
        return path.stem
    if path.parent.name == "fairseq_cli":  # python -m fairseq_cli.train, torchrun
        return f"fairseq-{path.stem.replace('_', '-')}"
    return None


def training_program() -> Any:
    """Return the module whose functions fairseq-train calls; None in other commands. A program
    started with `python -m fairseq_cli.train`, or by torchrun, is `__main__`."""
    program = sys.modules["__main__"]
    return program if hasattr(program, "validate_and_save") else sys.modules.get(TRAIN)

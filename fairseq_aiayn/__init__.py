"""The Transformer of "Attention Is All You Need" (Vaswani et al., 2017) as a plugin of fairseq."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fairseq_aiayn.inference.pytorch import Parser, Translator


def load(
    folder: str | Path | None = None, device: str | None = None, precision: str = "float32"
) -> Translator | Parser:
    """Load a model folder that `aiayn export` wrote, or the small English-German model of this
    package, without fairseq: a Parser if its model parses, else a Translator.

    `precision` is that of the search's matrix products, float32 or bfloat16.

    Raises OSError or ValueError, with the file and the rule, for a folder that cannot be used.
    """
    from fairseq_aiayn.inference.description import IN_HAND
    from fairseq_aiayn.inference.folder import read_folder
    from fairseq_aiayn.inference.pytorch import Parser, Translator  # imports torch

    model = read_folder(IN_HAND if folder is None else Path(folder))
    kind = Parser if model.config.task == "parsing" else Translator
    return kind(model, device, precision=precision)


def register() -> None:
    """Register everything with fairseq, and put plugin/'s changes of fairseq in place."""
    importlib.import_module("fairseq_aiayn.plugin")


class Directories(list[str]):
    """The package's `__path__`. If the package is imported already, fairseq only looks whether its
    --user-dir is in here."""

    def __contains__(self, path: object) -> bool:
        is_here = super().__contains__(path)
        if is_here and sys.modules.get("fairseq"):
            register()
        return is_here


def is_user_dir() -> bool:
    """Return whether fairseq is importing this package as its --user-dir, which it notes before."""
    importing = getattr(sys.modules.get("fairseq.utils"), "import_user_module", None)
    return str(Path(__file__).parent) in getattr(importing, "memo", ())


__path__ = Directories(__path__)
if is_user_dir():
    register()

"""The Transformer of "Attention Is All You Need" (Vaswani et al., 2017) as a plugin of fairseq."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairseq_aiayn.inference.pytorch import Parser, Translator


def load(
    folder: str | Path, device: str | None = None, precision: str = "float32"
) -> Translator | Parser:
    """Load a model folder that `aiayn export` wrote, without fairseq: a Parser if its model parses,
    else a Translator.

    `precision` is that of the search's matrix products, float32 or bfloat16.

    Raises OSError or ValueError, with the file and the rule, for a folder that cannot be used.
    """
    from fairseq_aiayn.inference.folder import PARSING, read_folder
    from fairseq_aiayn.inference.pytorch import Parser, Translator  # imports torch

    model = read_folder(Path(folder))
    kind = Parser if model.config.task == PARSING else Translator
    return kind(model, device, precision=precision)


def register() -> None:
    """Register everything with fairseq, which must have been imported."""
    importlib.import_module("fairseq_aiayn.plugin")


class RegisterAfterFairseq:
    """A finder on sys.meta_path that lets the import of fairseq end with `register`. `--user-dir
    fairseq_aiayn` only imports this package, and does nothing if it was imported before, for
    example to translate with a model folder. Importing fairseq here would take seconds."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the module that the other finders find for fairseq; None for other names."""
        if name != "fairseq":
            return None
        others = [finder for finder in sys.meta_path if finder is not self]
        specs = (finder.find_spec(name, path, target) for finder in others)
        spec = next(filter(None, specs), None)
        if spec is not None:
            loader: Any = spec.loader
            execute = loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                register()

            loader.exec_module = exec_module
        return spec


if sys.modules.get("fairseq"):  # None where a program blocks it
    register()
else:
    sys.meta_path.insert(0, RegisterAfterFairseq())

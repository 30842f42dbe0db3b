"""The Transformer of "Attention Is All You Need" (Vaswani et al., 2017) as a plugin of fairseq."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fairseq_aiayn.inference.engine import Translator

# With --user-dir, fairseq imports this package, and everything must be registered. Outside fairseq
# (the aiayn command) the plugin is not loaded, because importing fairseq alone takes seconds.
if "fairseq" in sys.modules:
    from fairseq_aiayn import plugin  # noqa: F401


def load(folder: str | Path, device: str | None = None, precision: str = "float32") -> Translator:
    """Load a model folder that `aiayn export` wrote, without fairseq.

    `precision` is that of the search's matrix products, float32 or bfloat16.

    Raises OSError or ValueError, with the file and the rule, for a folder that cannot be used.
    """
    from fairseq_aiayn.inference import engine  # imports torch

    return engine.load(folder, device, precision)

"""The compared systems (this checkout, stock fairseq, another checkout): flags and processes."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from side_by_side import ROOT

from fairseq_aiayn.paper import TRANSLATION
from fairseq_aiayn.regime.ours import as_words
from fairseq_aiayn.regime.search import search_options

STOCK = "stock"
OURS = "ours"
# What asks each system for a precision; float32 needs nothing
PRECISION_FLAGS = {
    ("aiayn", "bfloat16"): ["--autocast", "bfloat16"],
    ("aiayn", "float16"): ["--fp16"],
    ("stock", "bfloat16"): ["--bf16"],
    ("stock", "float16"): ["--fp16"],
}
# fairseq's own half precision ends with an error on a CPU
STOCK_PRECISIONS = {"cpu": ["float32"], "cuda": ["float16", "bfloat16"]}
PRECISIONS = {"cpu": ["float32", "bfloat16"], "cuda": ["float32", "bfloat16", "float16"]}
# In which both translate: stock fairseq has no other half precision there
TRANSLATING_PRECISION = {"cpu": "float32", "cuda": "float16"}
# As the recipes translate: the paper's search needs no options, stock fairseq's nearest does
SEARCH = {
    "aiayn": ["--task", "aiayn_translation"],
    "stock": ["--task", "translation", *as_words(search_options(TRANSLATION))],
}


@dataclass(frozen=True)
class Side:
    """A system in a precision; `root` is the checkout that its plugin and its flags come from."""

    label: str
    system: str  # aiayn or stock
    precision: str
    root: Path

    @property
    def name(self) -> str:
        """What tables call it."""
        return f"{self.label} {self.precision}"

    @property
    def environment(self) -> dict[str, str]:
        """Lets a process find this checkout's package before the installed one."""
        others = os.environ.get("PYTHONPATH")
        return {"PYTHONPATH": f"{self.root}{os.pathsep}{others}" if others else str(self.root)}

    @property
    def package(self) -> Path:
        """The plugin of the checkout."""
        return self.root / "fairseq_aiayn"

    @property
    def task(self) -> str:
        """fairseq's --task."""
        return "translation" if self.system == "stock" else "aiayn_translation"

    @property
    def plugin(self) -> list[str]:
        """fairseq's option that loads the plugin."""
        return ["--user-dir", str(self.package)]

    def regime(self, row: str, max_tokens: int, updates: int, warmup: int) -> list[str]:
        """fairseq-train's options for a row on one device, in this precision.

        Raises ValueError with what `aiayn flags` says of a row that cannot be had.
        """
        options = ["--gpus", 1, "--batch-tokens", max_tokens, "--max-tokens", max_tokens]
        options += ["--max-update", updates, "--warmup-updates", warmup, "--system", self.system]
        done = subprocess.run(
            [sys.executable, "-m", "fairseq_aiayn.cli.main", "flags", row, *map(str, options)],
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | self.environment,
            cwd=self.root,  # -m looks there first
        )
        if done.returncode:
            raise ValueError(done.stderr.strip().rpartition("\n")[2])
        return done.stdout.split() + PRECISION_FLAGS.get((self.system, self.precision), [])


def on_device(device: str) -> list[str]:
    """fairseq's option for a device: it takes a GPU where there is one."""
    return ["--cpu"] if device == "cpu" else []


def ours(precisions: list[str]) -> list[Side]:
    """This checkout in each precision."""
    return [Side(OURS, "aiayn", precision, ROOT) for precision in precisions]


def rivals(against: str, device: str, precisions: list[str]) -> list[Side]:
    """Stock fairseq in every precision that it has on the device, or another checkout in ours."""
    if against == STOCK:
        return [Side(STOCK, "stock", precision, ROOT) for precision in STOCK_PRECISIONS[device]]
    root = Path(against).resolve()
    return [Side(root.name, "aiayn", precision, root) for precision in precisions]


def opponents(against: str, device: str) -> tuple[Side, Side]:
    """Ours and its rival in the precision that both translate in."""
    precision = TRANSLATING_PRECISION[device]
    (own,) = ours([precision])
    others = rivals(against, device, [precision])
    return own, next(side for side in others if side.precision == precision)

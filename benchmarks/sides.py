"""The compared sides, this package and stock fairseq, as options of fairseq's commands."""

from __future__ import annotations

from dataclasses import dataclass

from fairseq_aiayn.paper import TRANSLATION, find_row
from fairseq_aiayn.runs.record import BFLOAT16_UNITS, ROOT, hardware
from fairseq_aiayn.settings import (
    as_words,
    generate_options,
    stock_flags,
    train_flags,
    with_budget,
)

PLUGIN = ["--user-dir", str(ROOT / "fairseq_aiayn")]
REGIMES = {"ours": train_flags, "stock": stock_flags}
TASKS = {"ours": "aiayn_translation", "stock": "translation"}
# As the recipes translate: the paper's search needs no options, stock fairseq's nearest does
SEARCHES = {"ours": [], "stock": as_words(generate_options(TRANSLATION))}
SINGLE_AND_HALF = {"float32": [], "float16": ["--fp16"]}
TRAINING_PRECISION = {
    "ours": SINGLE_AND_HALF | {"bfloat16": ["--autocast", "bfloat16"]},
    "stock": SINGLE_AND_HALF | {"bfloat16": [*PLUGIN, "--bf16"]},
}
SEARCH_PRECISION = SINGLE_AND_HALF | {"bfloat16": ["--search-precision", "bfloat16"]}  # ours alone
# Other processors take many times as long in bfloat16 as in float32
HAS_BFLOAT16 = any(unit in hardware()["processor"] for unit in BFLOAT16_UNITS.values())
# What trains at a time: stock fairseq, then ours. Stock's --bf16 is for GPUs: it rounds weights.
TRAININGS = {
    "cpu": {"float32": ["float32", "bfloat16"]},
    "cuda": {precision: [precision] for precision in ("float32", "float16", "bfloat16")},
}
# Of stock fairseq, which has no other half precision there; ours translates in bfloat16, too
TRANSLATING_PRECISION = {"cpu": "float32", "cuda": "float16"}


@dataclass(frozen=True)
class Side:
    """A system, "ours" or "stock", in a precision on a device."""

    system: str
    precision: str
    device: str

    @property
    def name(self) -> str:
        """What tables call it."""
        return f"{self.system} {self.precision}"

    def training_options(self, row: str, max_tokens: int, updates: int, warmup: int) -> list[str]:
        """Return options of fairseq-train for a configuration; nothing is validated.

        Raises ValueError for a configuration that the system does not have.
        """
        short = with_budget(find_row(row), steps=updates, warmup=warmup, batch_tokens=max_tokens)
        return [
            *(PLUGIN if self.system == "ours" else []),
            *("--task", TASKS[self.system]),
            *REGIMES[self.system](short, 1, max_tokens),
            *TRAINING_PRECISION[self.system][self.precision],
            *self._on_device(),
            *("--disable-validation", "--log-format", "simple", "--log-interval", "50"),
        ]

    def translating_options(self) -> list[str]:
        """Return options of fairseq-generate for the paper's search, beam 4 and α 0.6."""
        return [
            *PLUGIN,  # stock fairseq needs it to load its own checkpoints
            *("--task", TASKS[self.system], *SEARCHES[self.system]),
            *SEARCH_PRECISION[self.precision],
            *self._on_device(),
        ]

    def _on_device(self) -> list[str]:
        """Return options for the device: fairseq takes a GPU where there is one."""
        size = ["--required-batch-size-multiple", "1"]
        return ["--cpu", *size] if self.device == "cpu" else size


def training_groups(device: str) -> list[list[Side]]:
    """Return what trains in turn: stock fairseq in a precision, and what of ours it is beside."""
    return [
        [Side("stock", stock, device), *ours_in(ours, device)]
        for stock, ours in TRAININGS[device].items()
    ]


def translating_sides(device: str) -> list[Side]:
    """Return stock fairseq, then ours in the same precision and in bfloat16."""
    precision = TRANSLATING_PRECISION[device]
    return [Side("stock", precision, device), *ours_in([precision, "bfloat16"], device)]


def ours_in(precisions: list[str], device: str) -> list[Side]:
    """Return our side in each of the precisions that the device has."""
    lacking = "" if device == "cuda" or HAS_BFLOAT16 else "bfloat16"
    return [Side("ours", each, device) for each in precisions if each != lacking]

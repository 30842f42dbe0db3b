"""The compared sides, this package and stock fairseq, as options of fairseq's commands."""

from __future__ import annotations

from dataclasses import dataclass

from fairseq_aiayn.paper import TRANSLATION, find_row
from fairseq_aiayn.runs.record import ROOT
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
PRECISIONS = {"cpu": ["float32", "bfloat16"], "cuda": ["float32", "bfloat16", "float16"]}
# fairseq's own half precision ends with an error on a CPU
STOCK_PRECISIONS = {"cpu": ["float32"], "cuda": ["float16", "bfloat16"]}
# In which both translate: stock fairseq has no other half precision there
TRANSLATING_PRECISION = {"cpu": "float32", "cuda": "float16"}
PRECISION_FLAGS = {
    ("ours", "float32"): [],
    ("ours", "bfloat16"): ["--autocast", "bfloat16"],
    ("ours", "float16"): ["--fp16"],
    ("stock", "float32"): [],
    ("stock", "bfloat16"): ["--bf16"],
    ("stock", "float16"): ["--fp16"],
}
SEARCH_PRECISION_FLAGS = {
    "float32": [],
    "float16": ["--fp16"],
    "bfloat16": ["--search-precision", "bfloat16"],  # only ours has it
}
WARMUP = 4_000  # of the learning rate, section 5.3


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

    def training_options(
        self, row: str, max_tokens: int, updates: int, warmup: int = WARMUP
    ) -> list[str]:
        """Return options of fairseq-train for a row; nothing is validated.

        Raises ValueError for a row that the system has not.
        """
        short = with_budget(find_row(row), steps=updates, warmup=warmup, batch_tokens=max_tokens)
        return [
            *(PLUGIN if self.system == "ours" else []),
            *("--task", TASKS[self.system]),
            *REGIMES[self.system](short, 1, max_tokens),
            *PRECISION_FLAGS[self.system, self.precision],
            *self._on_device(),
            *("--required-batch-size-multiple", "1", "--disable-validation"),
            *("--log-format", "simple", "--log-interval", "50"),
        ]

    def translating_options(self) -> list[str]:
        """Return options of fairseq-generate for the paper's search, beam 4 and α 0.6."""
        return [
            *PLUGIN,  # stock fairseq needs it to load its own checkpoints
            *("--task", TASKS[self.system], *SEARCHES[self.system]),
            *SEARCH_PRECISION_FLAGS[self.precision],
            *self._on_device(),
            *("--required-batch-size-multiple", "1"),
        ]

    def _on_device(self) -> list[str]:
        """fairseq takes a GPU where there is one."""
        return ["--cpu"] if self.device == "cpu" else []


def training_sides(device: str, precisions: list[str]) -> list[Side]:
    """Stock fairseq in every precision that it has on the device, then ours in each of these."""
    stock = [Side("stock", precision, device) for precision in STOCK_PRECISIONS[device]]
    return stock + [Side("ours", precision, device) for precision in precisions]


def translating_sides(device: str) -> list[Side]:
    """Stock fairseq, then ours, in the precision that both translate in."""
    return [Side(system, TRANSLATING_PRECISION[device], device) for system in ("stock", "ours")]

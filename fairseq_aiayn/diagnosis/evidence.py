"""What the files of a training say of how it was made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fairseq_aiayn.settings import OURS


@dataclass(frozen=True)
class Weights:
    """What the parameters in a checkpoint tell."""

    projection_biases: bool  # in W^Q, W^K, W^V and W^O
    vocabulary: int | None  # types of the target language; None if no name tells


@dataclass(frozen=True)
class Evidence:
    """What is known of one training and its evaluation; None or empty where no file says it.

    Options have fairseq's argument names, such as max_tokens.
    """

    name: str  # of the file or the run
    options: Mapping[str, object]  # of fairseq-train, defaults included
    row: str | None = None  # that a recipe was asked for
    corpus: str | None = None  # the recipe's
    subset: str | None = None  # that was translated, such as valid or test
    updates: int | None = None
    tokens_per_update: float | None = None  # target tokens, without padding
    gpus: int | None = None  # of all nodes
    overflows: int | None = None  # updates that were left out, because a gradient overflowed
    gave_up_scaling: bool = False  # fairseq stopped: "Minimum loss scale reached"
    weights: Weights | None = None
    vocabulary: int | None = None  # types of the target language
    averaged: int | None = None  # checkpoints
    search: Mapping[str, object] = field(default_factory=dict)  # options of fairseq-generate
    translated: int | None = None  # sentences
    signature: str | None = None  # of BLEU

    def number(self, name: str) -> float | None:
        """Return an option that is a number; of a list, such as --lr 0.1,0.2, the last."""
        return as_number(self.options.get(name))

    def text(self, name: str) -> str | None:
        """Return an option as text."""
        value = self.options.get(name)
        return None if value is None else str(value)

    @property
    def is_our_model(self) -> bool:
        """Is the model this plugin's, and not stock fairseq's?"""
        return str(self.options.get("arch", "")).startswith(OURS)

    @property
    def is_our_search(self) -> bool:
        """Does this plugin's task search?"""
        return str(self.search.get("task", "")).startswith(OURS)


def as_number(value: object) -> float | None:
    """Return a number, a number written as text, or the last one of a list; otherwise None."""
    if isinstance(value, list) and value:
        value = value[-1]
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except ValueError:
        return None

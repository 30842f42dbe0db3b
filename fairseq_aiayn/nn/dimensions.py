"""The sizes of a Transformer, readable without torch."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

__all__ = ["LONGEST_SINUSOIDS", "Dimensions", "Sharing"]

LONGEST_SINUSOIDS = 4_096  # positions; four times the default of fairseq's --max-source-positions
Sharing = Literal["all", "target", "none"]  # which embedding matrices are one (section 3.4)


@dataclass(frozen=True)
class Dimensions:
    """The sizes and rates of the two layer stacks, in the symbols of Table 3; raises ValueError for
    a value that no Transformer can have."""

    N: int
    d_model: int
    d_ff: int
    h: int
    d_k: int
    d_v: int
    P_drop: float
    attention_dropout: float = 0.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in ("P_drop", "attention_dropout"):
                if not 0.0 <= value < 1.0:
                    raise ValueError(f"{field.name} must be in [0, 1), got {value}")
            elif value < 1:
                raise ValueError(f"{field.name} must be at least 1, got {value}")

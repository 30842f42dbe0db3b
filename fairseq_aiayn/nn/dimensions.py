"""The sizes and rates of a Transformer, in the symbols of Table 3."""

from __future__ import annotations

from dataclasses import dataclass, fields

LARGEST_N = 1000  # far beyond any Transformer; a huge N builds layers for hours, until memory ends


@dataclass(frozen=True)
class Dimensions:
    """The dimensions of the two layer stacks; raises ValueError for a value that no Transformer can
    have."""

    N: int
    d_model: int
    d_ff: int
    h: int
    d_k: int
    d_v: int
    P_drop: float
    attention_dropout: float = 0.0
    attention_window: int | None = None  # r of section 4; None = every position, as in the paper

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is None and field.name == "attention_window":
                continue
            if field.name in ("P_drop", "attention_dropout"):
                if not 0.0 <= value < 1.0:
                    raise ValueError(f"{field.name} must be in [0, 1), got {value}")
            elif value < 1:
                raise ValueError(f"{field.name} must be at least 1, got {value}")
        if self.N > LARGEST_N:
            raise ValueError(f"N must be at most {LARGEST_N}, got {self.N}")

"""Attention weights between the words of one sentence, or of a sentence and its translation."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class AttentionMap:
    """One kind of attention in all layers and heads of a model.

    kind is encoder (source to source), decoder (target to target) or cross (target to source).
    weights is [N, h, Q, K]; each row, the weights of one query, sums to 1. Raises ValueError if Q
    and K are not the numbers of queries and keys.
    """

    kind: str
    queries: tuple[str, ...]
    keys: tuple[str, ...]
    weights: Tensor

    def __post_init__(self) -> None:
        words = (len(self.queries), len(self.keys))
        if self.weights.dim() != 4 or self.weights.shape[2:] != words:
            raise ValueError(
                f"weights must be [N, h, {words[0]}, {words[1]}], got {list(self.weights.shape)}"
            )

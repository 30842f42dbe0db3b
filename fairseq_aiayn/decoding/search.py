"""The options of a search and the length penalty (section 6.1), usable without torch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral, Real
from typing import TYPE_CHECKING, TypeVar

from fairseq_aiayn.paper import PARSING_DECODING

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Search", "Symbols", "length_penalty"]

Number = TypeVar("Number", int, "Tensor")


@dataclass(frozen=True)
class Symbols:
    """The tokens with a meaning for the search; as in fairseq, `end` also precedes the first
    token."""

    end: int
    padding: int


@dataclass(frozen=True)
class Search:
    """The options of a search: beam size k and length penalty α; maximum output length ⌊a·n + b⌋
    for a source of n tokens; minimum output length; number of outputs.

    No length counts the end-of-sentence token. The search of a sentence ends when no active
    hypothesis can still enter its `nbest` best outputs. Raises ValueError for a value that is out
    of range.
    """

    beam: int
    alpha: float
    b: int
    a: float = 1.0
    min_length: int = 1
    nbest: int = 1

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            is_rate = name in ("alpha", "a")
            if not isinstance(value, Real if is_rate else Integral):
                kind = "number" if is_rate else "whole number"
                raise ValueError(f"{name} must be a {kind}, got {value!r}")
        if self.beam < 1:
            raise ValueError(f"the beam size must be at least 1, got {self.beam}")
        if not 0 <= self.alpha <= 100:  # more overflows for long outputs
            raise ValueError(f"the length penalty α must be from 0 to 100, got {self.alpha}")
        if not 0 <= self.a < math.inf:
            raise ValueError(f"max_len_a must be a number from 0 on, got {self.a}")
        if not 1 <= self.nbest <= self.beam:
            raise ValueError(
                f"nbest must be between 1 and the beam size {self.beam}, got {self.nbest}"
            )
        if self.min_length < 0:
            raise ValueError(f"the minimum length must not be negative, got {self.min_length}")

    def over(self, V: int) -> Search:
        """Return these options for a target vocabulary of V entries; raises ValueError for a larger
        beam, which is probably a typing error and would fill the memory with decoding states."""
        largest = max(V, PARSING_DECODING.beam)  # tiny vocabularies get the paper's largest beam
        if self.beam > largest:
            raise ValueError(
                f"the beam size must be at most {largest:,}, the size of the target vocabulary,"
                f" got {self.beam:,}"
            )
        return self

    def max_lengths(self, source: Tensor, symbols: Symbols) -> Tensor:
        """Return the maximum output length of each sentence [B], which depends on its own length
        only; source [B, S] has these `symbols` as end and padding."""
        real = source.ne(symbols.padding) & source.ne(symbols.end)
        # Not on the device: in float32, 1.05 · 60 is less than 63
        return source.new_tensor([int(self.a * n + self.b) for n in real.sum(dim=1).tolist()])


def length_penalty(length: Number, alpha: float) -> float | Number:
    """Return lp(Y) = ((5 + |Y|)/6)^α (Equation 14 of Wu et al.); the score of a finished hypothesis
    is log P(Y|X) / lp(Y).

    |Y| = `length` is a number or a tensor of numbers. It counts the end-of-sentence token, as in
    the paper's own code.
    """
    return ((5.0 + length) / 6.0) ** alpha

"""The length penalty of Wu et al. (2016), Equation 14, which section 6.1 cites."""

from __future__ import annotations

from typing import TypeVar

from torch import Tensor

Number = TypeVar("Number", int, Tensor)


def length_penalty(length: Number, alpha: float) -> float | Number:
    """Return lp(Y) = ((5 + |Y|)/6)^α; the score of a finished translation is log P(Y|X) / lp(Y).

    |Y| = `length` is a number or a tensor of numbers. It counts the end-of-sentence token, as in
    the paper's own code.
    """
    return ((5.0 + length) / 6.0) ** alpha

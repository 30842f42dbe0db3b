"""The length penalty of Wu et al. (2016), Equation 14, which section 6.1 cites."""

from __future__ import annotations

from typing import TypeVar

from torch import Tensor

Number = TypeVar("Number", int, Tensor)


def length_penalty(length: Number, alpha: float) -> float | Number:
    """lp(Y) = ((5 + |Y|)/6)^α; a finished translation's score is log P(Y|X) / lp(Y).

    |Y| = `length`, a number or a tensor of them, counts the end-of-sentence token, as the paper's
    own code does.
    """
    return ((5.0 + length) / 6.0) ** alpha

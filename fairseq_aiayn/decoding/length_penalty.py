"""The length penalty of Wu et al. (2016), Equation 14, which section 6.1 cites."""

from __future__ import annotations


def length_penalty(length: int, alpha: float) -> float:
    """lp(Y) = ((5 + |Y|)/6)^α; a finished translation's score is log P(Y|X) / lp(Y).

    |Y| = `length` counts the end-of-sentence token, as the paper's own code does.
    """
    return ((5.0 + length) / 6.0) ** alpha

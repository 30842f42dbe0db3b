"""A difference between two systems, and how sure it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairseq_aiayn.treebank.evalb.report import Constituents

CONFIDENCE = 0.95  # of intervals
SAMPLES = 10_000  # of the test set
SEED = 12345  # of the samples; sacrebleu's
AT_A_TIME = 100  # samples that are in memory together


@dataclass(frozen=True)
class EstimatedDifference:
    """A difference with its confidence interval, and how often chance alone makes one as large."""

    difference: float
    low: float  # of the interval
    high: float
    p_value: float


def f1_difference(
    first: Sequence[Constituents], other: Sequence[Constituents]
) -> EstimatedDifference:
    """Return F1 of `other` minus F1 of `first`, in per cent, by the paired bootstrap (Koehn, 2004).

    Each parser has the counts of the same sentences, in the same order. The interval has the middle
    95% of the differences over resampled sentences, and p is the share of them that are at least as
    far from their mean as the difference is from 0. Raises ValueError for different numbers of
    sentences and for fewer than two.
    """
    from scipy.stats import bootstrap  # here: it takes a second, and most commands need no test

    if len(first) != len(other) or len(first) < 2:
        raise ValueError(
            f"a test needs the same two sentences or more, got {len(first):,} and {len(other):,}"
        )
    counts = [*np.array(first, dtype=float).T, *np.array(other, dtype=float).T]
    found = bootstrap(
        counts,
        _f1_difference,
        paired=True,
        vectorized=True,
        method="percentile",
        n_resamples=SAMPLES,
        batch=AT_A_TIME,
        confidence_level=CONFIDENCE,
        rng=np.random.default_rng(SEED),
    )
    difference = float(_f1_difference(*counts))
    samples = found.bootstrap_distribution
    extreme = np.abs(samples - samples.mean()) >= abs(difference)
    return EstimatedDifference(
        difference=difference,
        low=float(found.confidence_interval.low),
        high=float(found.confidence_interval.high),
        p_value=(int(extreme.sum()) + 1) / (SAMPLES + 1),  # as sacrebleu estimates it
    )


def _f1_difference(*counts: np.ndarray, axis: int = -1) -> np.ndarray:
    """Return the difference of F1; counts are matched, gold and predicted of each system."""
    matched, gold, predicted, *of_other = (count.sum(axis=axis) for count in counts)
    return _f1(*of_other) - _f1(matched, gold, predicted)


def _f1(matched: np.ndarray, gold: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """Return F1 in per cent; it is 0 where there are no constituents."""
    return 200 * matched / np.maximum(gold + predicted, 1)

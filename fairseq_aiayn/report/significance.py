"""How sure a difference is: over sentences by the paired bootstrap (Koehn, 2004), over seeds by
Welch's t-test."""

from __future__ import annotations

import math
import statistics
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairseq_aiayn.scores import sacrebleu_metric
from fairseq_aiayn.treebank.evalb import Counts

SAMPLES = 1_000  # of the test set; sacrebleu's default
LEVEL = 0.05
FEWEST = 100  # sentences; resampling fewer says little about the difference
CONFIDENCE = 0.95  # of intervals
SAMPLES_OF_DIFFERENCE = 10_000  # of the test set
SEED = 12345  # of the samples; sacrebleu's


@dataclass(frozen=True)
class SystemScore:
    """One system's sacreBLEU over resampled test sets; p_value is None for the first system."""

    score: float
    mean: float
    interval: float  # 95% of the samples lie within mean ± interval
    p_value: float | None  # of the difference from the first system


@dataclass(frozen=True)
class Significance:
    """Systems compared with the first of them."""

    signature: str
    systems: dict[str, SystemScore]  # by name


@dataclass(frozen=True)
class EstimatedDifference:
    """A difference with its confidence interval, and how often chance alone makes one as large."""

    difference: float
    low: float  # of the interval
    high: float
    p_value: float


def paired_bootstrap(
    translations: Mapping[str, Sequence[str]], reference: Sequence[str], tokenizer: str = "13a"
) -> Significance:
    """Test two systems or more against the first by sacreBLEU's paired bootstrap. Samples are drawn
    with sacrebleu's seed (12345 unless SACREBLEU_SEED is set), so that the same texts give the same
    result."""
    from sacrebleu.significance import PairedTest

    metric, sides = {"BLEU": sacrebleu_metric(tokenizer)}, [list(reference)]
    test = PairedTest([*translations.items()], metric, sides, "bs", n_samples=SAMPLES)
    signatures, scores = test()
    results: Sequence[Any] = scores["BLEU"]
    first, systems = results[0].score, {}
    for name, found in zip(translations, results, strict=True):
        # For equal scores, sacrebleu returns the smallest possible p
        p = 1.0 if found.p_value is not None and found.score == first else found.p_value
        systems[name] = SystemScore(found.score, float(found.mean), float(found.ci), p)
    return Significance(str(signatures["BLEU"]), systems)


def f1_difference(first: Sequence[Counts], other: Sequence[Counts]) -> EstimatedDifference:
    """Return F1 of `other` minus F1 of `first`, in per cent, by the paired bootstrap.
    Each has the counts of the same sentences. p is the share of resampled test sets whose
    difference is at least as far from their mean as the difference is from 0."""
    counts = np.column_stack([first, other])
    sentences, generator = len(counts), np.random.default_rng(SEED)
    difference, samples = _f1_gain(counts.sum(axis=0)), np.empty(SAMPLES_OF_DIFFERENCE)
    for k in range(SAMPLES_OF_DIFFERENCE):
        drawn = generator.integers(sentences, size=sentences)
        samples[k] = _f1_gain(np.bincount(drawn, minlength=sentences) @ counts)
    outside = (1 - CONFIDENCE) / 2
    low, high = np.quantile(samples, (outside, 1 - outside))
    extreme = np.abs(samples - samples.mean()) >= abs(difference)
    p_value = (int(extreme.sum()) + 1) / (SAMPLES_OF_DIFFERENCE + 1)  # as sacrebleu estimates it
    return EstimatedDifference(difference, float(low), float(high), p_value)


def _f1_gain(counts: np.ndarray) -> float:
    """Return the difference of F1, which is 0 where there are no constituents; counts are matched,
    gold and predicted of each system."""
    first, other = (200 * part[0] / max(1, part[1] + part[2]) for part in (counts[:3], counts[3:]))
    return float(other - first)


def seeds_difference(first: Sequence[float], other: Sequence[float]) -> EstimatedDifference | None:
    """Return the mean of `other` minus that of `first`, by Welch's t-test; None for figures that do
    not vary at all, or are not always numbers."""
    from scipy.stats import ttest_ind  # here: it takes a second, and most pages need no test

    if len(set(first)) == len(set(other)) == 1 or not all(map(math.isfinite, (*first, *other))):
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # equal values of one group do no harm
        test = ttest_ind(other, first, equal_var=False)
    low, high = test.confidence_interval(CONFIDENCE)
    difference = statistics.mean(other) - statistics.mean(first)
    return EstimatedDifference(difference, float(low), float(high), float(test.pvalue))

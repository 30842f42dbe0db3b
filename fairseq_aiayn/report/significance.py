"""How sure a difference is: over sentences by the paired bootstrap (Koehn, 2004), over seeds by
Welch's t-test."""

from __future__ import annotations

import math
import statistics
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from fairseq_aiayn.report.document import Block, Cell, Code, Table, table_of
from fairseq_aiayn.runs.run import ParserRun
from fairseq_aiayn.runs.seeds import OverSeeds
from fairseq_aiayn.scores import sacrebleu_metric
from fairseq_aiayn.treebank.evalb import Counts

SAMPLES = 1_000  # of the test set; sacrebleu's default
LEVEL = 0.05
FEWEST = 100  # sentences; resampling fewer says little about the difference
CONFIDENCE = 0.95  # of intervals
SAMPLES_OF_DIFFERENCE = 10_000  # of the test set
SEED = 12345  # of the samples; sacrebleu's
MEANING_OF_P = (
    "p is how often resampled test sets show a difference as large where there is none. It says "
    "nothing about another seed, which moves the score too."
)


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


# Tables


def mean_of(values: Sequence[float]) -> str:
    """Return the mean over seeds, with the sample deviation if there are several; nan if one, as of
    a training that diverged, is not a number."""
    if len(values) < 2:
        return "".join(f"{value:.2f}" for value in values)
    deviation = statistics.stdev(values) if all(map(math.isfinite, values)) else math.nan
    return f"{statistics.fmean(values):.2f} ± {deviation:.2f}"


def seeds_blocks(groups: Sequence[OverSeeds]) -> list[Block]:
    """Return mean ± deviation of each group, and tests of the differences from the first."""
    if not groups:
        return []
    first, *others = groups
    rows = [
        [group.name, ", ".join(map(str, group.seeds)), *map(mean_of, group.figures.values())]
        for group in groups
    ]
    for other in others:
        pairs = zip(first.figures.values(), other.figures.values(), strict=True)
        cells = (
            found and f"{found.difference:+.2f} ({_interval(found)}; p {found.p_value:.2f})"
            for found in (seeds_difference(*pair) for pair in pairs)
        )
        rows.append([f"{other.name}, difference", "", *(text or "" for text in cells)])
    text = (
        f"Differences are from {first.name}, with their {CONFIDENCE:.0%} confidence interval and p "
        "by Welch's t-test: p is how often seeds alone would make so large a difference. "
    )
    shown = "Where only one run of a group is shown, it is that of the first seed."
    header = ["mean ± standard deviation", "seeds", *first.figures]
    return [Table(header, rows, left=2), text + shown if others else shown]


def _interval(found: EstimatedDifference) -> str:
    """Return the confidence interval of a difference."""
    return f"{found.low:+.2f} to {found.high:+.2f}"


def leads(significance: Significance, sentences: int) -> Iterator[str]:
    """Yield, for each system but the first, which of the two is ahead, and whether by chance."""
    (first, base), *others = significance.systems.items()
    for name, tested in others:
        gain = tested.score - base.score
        ahead, behind = (name, first) if gain > 0 else (first, name)
        is_sure = verdict(cast(float, tested.p_value), sentences)
        yield f"{ahead} is {abs(gain):.2f} sacreBLEU ahead of {behind}: {is_sure}"


def verdict(p_value: float, sentences: int) -> str:
    """Say whether a difference on so many sentences is significant."""
    if sentences < FEWEST:
        return f"fewer than {FEWEST} sentences are too few to say"
    return "significant" if p_value < LEVEL else "may be chance"


def significance_blocks(significance: Significance | None, sentences: int) -> list[Block]:
    """Return each translation against the first, over resampled test sets."""
    if not significance:
        return []
    rows: list[list[Cell]] = [
        [
            ("", name, ""),
            ("sacreBLEU", tested.score, ".2f"),
            ("mean of the samples, 95%", f"{tested.mean:.2f} ± {tested.interval:.2f}", ""),
            ("p", tested.p_value, ".3f"),
        ]
        for name, tested in significance.systems.items()
    ]
    return [
        "; ".join(leads(significance, sentences)),
        f"Paired bootstrap (Koehn, 2004) by sacreBLEU: {MEANING_OF_P}",
        table_of(rows),
        ["sacreBLEU: ", Code(significance.signature)],
    ]


def f1_blocks(first: ParserRun, tests: Mapping[str, EstimatedDifference]) -> list[Block]:
    """Return each search against the first, over resampled sentences; nothing for one search."""
    rows: list[list[Cell]] = [
        [
            (f"F1 against {first.name}", name, ""),
            ("difference", found.difference, "+.2f"),
            (f"{CONFIDENCE:.0%} interval", _interval(found), ""),
            ("p", found.p_value, ".4f"),
            ("verdict", verdict(found.p_value, first.sentences), ""),
        ]
        for name, found in tests.items()
    ]
    text = f"Paired bootstrap (Koehn, 2004) over {SAMPLES_OF_DIFFERENCE:,} samples: {MEANING_OF_P}"
    return [table_of(rows), text] if rows else []

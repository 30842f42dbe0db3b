"""Test whether a difference between translations is significant or chance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sacrebleu.metrics import BLEU
from sacrebleu.significance import PairedTest, Result

SAMPLES = 1_000  # of the test set; sacrebleu's default
LEVEL = 0.05
FEWEST = 100  # sentences; resampling fewer says little about the difference


@dataclass(frozen=True)
class Tested:
    """One system's sacreBLEU over resampled test sets; p_value is None for the first system."""

    score: float
    mean: float
    interval: float  # 95% of the samples lie within mean ± interval
    p_value: float | None  # of the difference from the first system


@dataclass(frozen=True)
class Significance:
    """Systems tested against the first of them."""

    signature: str
    systems: dict[str, Tested]  # by name


def paired_bootstrap(
    translations: Mapping[str, Sequence[str]], reference: Sequence[str], samples: int = SAMPLES
) -> Significance:
    """Test systems against the first by sacreBLEU's paired bootstrap (Koehn, 2004).

    Samples are drawn with sacrebleu's seed (12345 unless SACREBLEU_SEED is set), so that the same
    texts give the same result. Raises ValueError for fewer than two systems.
    """
    if len(translations) < 2:
        raise ValueError(f"a test needs two systems, got {len(translations)}")
    named = [(name, list(lines)) for name, lines in translations.items()]
    test = PairedTest(named, {"BLEU": BLEU()}, [list(reference)], "bs", n_samples=samples)
    signatures, scores = test()
    results = dict(zip(scores["System"], scores["BLEU"], strict=True))
    first, *_ = results.values()
    return Significance(
        signature=str(signatures["BLEU"]),
        systems={name: _tested(found, first) for name, found in results.items()},
    )


def _tested(found: Result, first: Result) -> Tested:
    p_value = None if found.p_value is None else float(found.p_value)
    if p_value is not None and found.score == first.score:
        p_value = 1.0  # for equal scores, sacrebleu returns the smallest possible p
    return Tested(float(found.score), float(found.mean), float(found.ci), p_value)

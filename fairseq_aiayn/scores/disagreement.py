"""The sentences whose translations differ most between systems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sacrebleu.metrics import CHRF

EVEN = 0.005  # chrF points; a smaller difference is invisible in the two digits shown


@dataclass(frozen=True)
class Disagreement:
    """One sentence, with the score of each system's translation."""

    index: int  # of the sentence, from 0
    chrf: dict[str, float]  # by the name of the system


@dataclass(frozen=True)
class Contrast:
    """A system compared with the first one, sentence by sentence."""

    better: int  # sentences
    worse: int
    even: int  # equally good, often identical


def sentence_chrf(
    translations: Mapping[str, Sequence[str]], reference: Sequence[str]
) -> dict[str, list[float]]:
    """Return chrF of every sentence, by system; unlike BLEU, it is meaningful for one sentence."""
    metric = CHRF()
    return {
        name: [
            metric.sentence_score(line, [right]).score
            for line, right in zip(lines, reference, strict=True)
        ]
        for name, lines in translations.items()
    }


def largest_disagreements(chrf: Mapping[str, Sequence[float]], count: int) -> list[Disagreement]:
    """Return the `count` sentences with the largest gap between best and worst chrF.

    Sentences on which all systems are even are left out.
    """
    by_sentence = list(zip(*chrf.values(), strict=True))
    spread = [max(scores) - min(scores) for scores in by_sentence]
    order = sorted(range(len(spread)), key=lambda k: (-spread[k], k))
    return [
        Disagreement(k, dict(zip(chrf, by_sentence[k], strict=True)))
        for k in order[:count]
        if spread[k] >= EVEN
    ]


def contrasts(chrf: Mapping[str, Sequence[float]]) -> dict[str, Contrast]:
    """Compare every other system with the first; return the contrasts by name."""
    first, *others = chrf
    found = {}
    for name in others:
        gains = [own - other for own, other in zip(chrf[name], chrf[first], strict=True)]
        better = sum(gain >= EVEN for gain in gains)
        worse = sum(gain <= -EVEN for gain in gains)
        found[name] = Contrast(better, worse, len(gains) - better - worse)
    return found

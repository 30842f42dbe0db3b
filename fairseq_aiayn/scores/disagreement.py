"""Sentences in whose translation systems differ most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sacrebleu.metrics import CHRF

EVEN = 0.005  # chrF points; less is no difference in the two digits that are shown


@dataclass(frozen=True)
class Disagreement:
    """One sentence, and how well each system translated it."""

    index: int  # of the sentence, from 0
    chrf: dict[str, float]  # by the name of the system


@dataclass(frozen=True)
class Contrast:
    """A system beside the first one, sentence by sentence."""

    better: int  # sentences
    worse: int
    even: int  # as good, often the same words


def sentence_chrf(
    translations: Mapping[str, Sequence[str]], reference: Sequence[str]
) -> dict[str, list[float]]:
    """chrF of every sentence, which unlike BLEU tells single sentences apart, by system."""
    metric = CHRF()
    return {
        name: [
            metric.sentence_score(line, [right]).score
            for line, right in zip(lines, reference, strict=True)
        ]
        for name, lines in translations.items()
    }


def largest_disagreements(chrf: Mapping[str, Sequence[float]], count: int) -> list[Disagreement]:
    """The `count` sentences whose best and worst chrF lie furthest apart; none where all agree."""
    by_sentence = list(zip(*chrf.values(), strict=True))
    spread = [max(scores) - min(scores) for scores in by_sentence]
    order = sorted(range(len(spread)), key=lambda k: (-spread[k], k))
    return [
        Disagreement(k, dict(zip(chrf, by_sentence[k], strict=True)))
        for k in order[:count]
        if spread[k] >= EVEN
    ]


def contrasts(chrf: Mapping[str, Sequence[float]]) -> dict[str, Contrast]:
    """Every system but the first beside the first, by name."""
    first, *others = chrf
    found = {}
    for name in others:
        gains = [own - other for own, other in zip(chrf[name], chrf[first], strict=True)]
        better = sum(gain >= EVEN for gain in gains)
        worse = sum(gain <= -EVEN for gain in gains)
        found[name] = Contrast(better, worse, len(gains) - better - worse)
    return found

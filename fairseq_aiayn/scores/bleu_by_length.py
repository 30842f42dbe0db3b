"""BLEU by sentence length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sacrebleu.metrics import BLEU

CLASSES = 5


@dataclass(frozen=True)
class LengthClass:
    """Sentences of similar length."""

    shortest: int  # words of the source
    longest: int
    sentences: int
    bleu: dict[str, float]  # sacreBLEU by the name of the system


def bleu_by_length(
    source: Sequence[str], reference: Sequence[str], translations: Mapping[str, Sequence[str]]
) -> list[LengthClass]:
    """Score at most CLASSES classes of source lengths, with similar numbers of sentences.

    Lengths are in words separated by white space. Sentences of the same length are in one class, so
    that classes differ in size if many sentences have the same length.
    """
    metric = BLEU()
    found = []
    for members in _classes([len(line.split()) for line in source]):
        scores = {
            name: metric.corpus_score(
                [lines[k] for k in members], [[reference[k] for k in members]]
            ).score
            for name, lines in translations.items()
        }
        lengths = [len(source[k].split()) for k in members]
        found.append(LengthClass(min(lengths), max(lengths), len(members), scores))
    return found


def _classes(lengths: Sequence[int]) -> list[list[int]]:
    """Return the indices of sentences by increasing length, cut into nearly equal shares."""
    order = sorted(range(len(lengths)), key=lambda k: lengths[k])
    classes: list[list[int]] = [[]]
    for done, k in enumerate(order):
        # Those that are left are shared by the classes that are left, this one included
        begun = len(classes[-1])
        share = (len(order) - done + begun) / (CLASSES - len(classes) + 1)
        if begun >= share and lengths[k] != lengths[classes[-1][-1]]:
            classes.append([])
        classes[-1].append(k)
    return [members for members in classes if members]

"""EVALB's score of one sentence: matched and crossing constituents, correct tags."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import NamedTuple

from fairseq_aiayn.treebank.evalb.bracketing import Bracketing, Constituent
from fairseq_aiayn.treebank.evalb.parameters import Parameters
from fairseq_aiayn.treebank.evalb.quotes import put_back_quotes


class Status(IntEnum):
    """Whether a sentence counts; the figures are EVALB's."""

    VALID = 0
    ERROR = 1  # the trees do not have the same words, or brackets do not balance
    SKIPPED = 2  # the predicted tree has no words


class SentenceScore(NamedTuple):
    """What one sentence adds to the totals."""

    length: int  # words of the gold tree, punctuation among them, traces not
    status: Status = Status.VALID
    reason: str = ""  # of an error or a skip
    gold: tuple[str, ...] = ()  # labels of the constituents that count
    predicted: tuple[str, ...] = ()
    matched: tuple[str, ...] = ()  # the gold labels of those that match
    crossing: int = 0  # predicted constituents that cross a gold one
    words: int = 0  # without those deleted
    correct_tags: int = 0

    @property
    def recall(self) -> float:
        """Matched of gold constituents, per cent; 0 if there are none."""
        return percent(len(self.matched), len(self.gold))

    @property
    def precision(self) -> float:
        """Matched of predicted constituents, per cent; 0 if there are none."""
        return percent(len(self.matched), len(self.predicted))


def percent(part: int, whole: int) -> float:
    """100 * part / whole, and 0 of nothing."""
    return 100.0 * part / whole if whole else 0.0


def score_bracketings(
    gold: Bracketing, predicted: Bracketing, parameters: Parameters
) -> SentenceScore:
    """Score one sentence; puts quotes back in both where their numbers of words differ."""
    if not predicted.words:
        return SentenceScore(gold.length, Status.SKIPPED, "no words to score")
    if len(gold.words) != len(predicted.words):
        put_back_quotes(gold, predicted)
    reason = _difference(gold.words, predicted.words, parameters)
    if reason:
        return SentenceScore(gold.length, Status.ERROR, reason)
    fault = f"gold: {gold.fault}" if gold.fault else predicted.fault
    gold_constituents = gold.counted(parameters)
    predicted_constituents = predicted.counted(parameters)
    return SentenceScore(
        length=gold.length,
        # Such a sentence is left out of the totals, yet its own line has figures
        status=Status.ERROR if fault else Status.VALID,
        reason=fault,
        gold=tuple(label for *_, label in gold_constituents),
        predicted=tuple(label for *_, label in predicted_constituents),
        matched=matched_labels(gold_constituents, predicted_constituents, parameters),
        crossing=count_crossing(gold_constituents, predicted_constituents),
        words=len(gold.words),
        correct_tags=count_correct_tags(gold.tags, predicted.tags, parameters),
    )


def _difference(gold: Sequence[str], predicted: Sequence[str], parameters: Parameters) -> str:
    """Say what differs between the words; nothing if they are the same."""
    if len(gold) != len(predicted):
        return f"{len(predicted)} words to score where gold has {len(gold)}"
    for expected, word in zip(gold, predicted, strict=True):
        if word != expected and (expected, word) not in parameters.same_words:
            return f"the word {word!r:.60} where gold has {expected!r:.60}"
    return ""


def matched_labels(
    gold: Sequence[Constituent], predicted: Sequence[Constituent], parameters: Parameters
) -> tuple[str, ...]:
    """Pair each gold constituent with the first free predicted one; return the paired's labels."""
    free: dict[tuple[int, int], list[str]] = defaultdict(list)
    for start, end, label in predicted:
        free[start, end].append(label)
    same, labeled = parameters.same_labels, parameters.labeled
    found = []
    for start, end, label in gold:
        others = free.get((start, end), [])
        for place, other in enumerate(others):
            if other == label or (label, other) in same or not labeled:
                del others[place]
                found.append(label)
                break
    return tuple(found)


def count_crossing(gold: Iterable[Constituent], predicted: Iterable[Constituent]) -> int:
    """Count predicted constituents that share words with a gold one and neither holds the other.

    Gold constituents lie within each other or apart, so that of those around a boundary between
    two words the innermost begins last and ends first: a predicted one crosses any of them that it
    can cross at its own boundaries only if it crosses the innermost.
    """
    spans = {(start, end) for start, end, _ in gold}
    around = _innermost(sorted(spans, key=lambda span: (span[0], -span[1])))
    count = 0
    for start, end, _ in predicted:
        at_start, at_end = around.get(start), around.get(end)
        count += bool((at_start and at_start[1] < end) or (at_end and at_end[0] > start))
    return count


def _innermost(spans: list[tuple[int, int]]) -> dict[int, tuple[int, int]]:
    """The innermost of nested spans around each boundary within one; outer spans come first."""
    around: dict[int, tuple[int, int]] = {}
    within: list[tuple[int, int]] = []
    place = 0
    first = spans[0][0] if spans else 0
    last = max((end for _, end in spans), default=0)
    for boundary in range(first + 1, last):
        while place < len(spans) and spans[place][0] < boundary:
            within.append(spans[place])
            place += 1
        while within and within[-1][1] <= boundary:
            within.pop()
        if within:
            around[boundary] = within[-1]
    return around


def count_correct_tags(
    gold: Sequence[str], predicted: Sequence[str], parameters: Parameters
) -> int:
    """Count the words that have gold's tag, or one that equals it."""
    same = parameters.same_labels
    return sum(a == b or (a, b) in same for a, b in zip(gold, predicted, strict=True))

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
    """Whether a sentence counts; the numbers are those of EVALB."""

    VALID = 0
    ERROR = 1  # the trees do not have the same words, or brackets do not balance
    SKIPPED = 2  # the predicted tree has no words


class SentenceScore(NamedTuple):
    """The contribution of one sentence to the totals."""

    length: int  # number of words of the gold tree, with punctuation, without traces
    status: Status = Status.VALID
    reason: str = ""  # why the sentence is an error or is skipped
    gold: tuple[str, ...] = ()  # labels of the constituents that count
    predicted: tuple[str, ...] = ()
    matched: tuple[str, ...] = ()  # the gold labels of the constituents that match
    crossing: int = 0  # predicted constituents that cross a gold one
    words: int = 0  # number of words that are not deleted
    correct_tags: int = 0

    @property
    def recall(self) -> float:
        """Percentage of the gold constituents that match; 0 if there are none."""
        return percent(len(self.matched), len(self.gold))

    @property
    def precision(self) -> float:
        """Percentage of the predicted constituents that match; 0 if there are none."""
        return percent(len(self.matched), len(self.predicted))


def percent(part: int, whole: int) -> float:
    """Return 100 * part / whole, or 0 if `whole` is 0."""
    return 100.0 * part / whole if whole else 0.0


def score_bracketings(
    gold: Bracketing, predicted: Bracketing, parameters: Parameters
) -> SentenceScore:
    """Score one sentence; if the numbers of words differ, this puts back quotes in both trees, in
    place."""
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
        # A sentence with a fault is left out of the totals, but its own line has figures
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
    """Return how the words differ; "" if they are the same."""
    if len(gold) != len(predicted):
        return f"{len(predicted)} words to score where gold has {len(gold)}"
    for expected, word in zip(gold, predicted, strict=True):
        if word != expected and (expected, word) not in parameters.same_words:
            return f"the word {word!r:.60} where gold has {expected!r:.60}"
    return ""


def matched_labels(
    gold: Sequence[Constituent], predicted: Sequence[Constituent], parameters: Parameters
) -> tuple[str, ...]:
    """Pair each gold constituent with the first free predicted one that matches it; return the gold
    labels of the pairs."""
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
    """Count the predicted constituents that share words with a gold one, where neither contains the
    other.

    Two gold constituents are either nested or disjoint. So among those around a boundary between
    two words, the innermost begins last and ends first. If a predicted constituent that begins or
    ends at this boundary crosses one of them, it also crosses the innermost.
    """
    spans = {(start, end) for start, end, _ in gold}
    around = _innermost(sorted(spans, key=lambda span: (span[0], -span[1])))
    count = 0
    for start, end, _ in predicted:
        at_start, at_end = around.get(start), around.get(end)
        count += bool((at_start and at_start[1] < end) or (at_end and at_end[0] > start))
    return count


def _innermost(spans: list[tuple[int, int]]) -> dict[int, tuple[int, int]]:
    """Return, for each word boundary inside a span, the innermost span around it.

    The spans are nested or disjoint, sorted by their beginning, outer spans first.
    """
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
    """Count the words that have the gold tag or a tag that equals it."""
    same = parameters.same_labels
    return sum(a == b or (a, b) in same for a, b in zip(gold, predicted, strict=True))

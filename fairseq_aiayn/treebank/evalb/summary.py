"""EVALB's figures over many sentences: over all of them, and over those up to the cutoff length."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, fields
from itertools import chain, islice

from fairseq_aiayn.treebank.evalb.parameters import Parameters
from fairseq_aiayn.treebank.evalb.sentence import SentenceScore, Status, percent

AT_A_TIME = 100  # sentences whose labels are counted together, because this is faster


@dataclass(frozen=True)
class Summary:
    """The figures of a set of sentences; all but the first three are over the valid sentences."""

    sentences: int
    errors: int
    skipped: int
    valid: int
    recall: float  # percent, like all following floats unless noted
    precision: float
    f1: float  # 0 if recall and precision are 0
    complete_match: float  # sentences whose constituents all match
    average_crossing: float  # crossing constituents per sentence
    no_crossing: float
    two_or_less_crossing: float
    tagging_accuracy: float
    gold_constituents: int
    predicted_constituents: int
    matched_constituents: int
    crossing_constituents: int
    words: int
    correct_tags: int


@dataclass(frozen=True)
class LabelCount:
    """How often a label occurs among the constituents that count, and how often they match."""

    gold: int
    predicted: int
    matched: int


@dataclass(frozen=True)
class Scores:
    """The output of `aiayn evalb --json`; equal labels are counted under one of them (ADVP for
    PRT)."""

    all: Summary
    short: Summary  # sentences of at most `cutoff` words
    cutoff: int
    parameters: str
    labels: dict[str, LabelCount]


@dataclass
class _Totals:
    """Sums over sentences."""

    sentences: int = 0
    errors: int = 0
    valid: int = 0
    gold: int = 0
    predicted: int = 0
    matched: int = 0
    complete: int = 0
    crossing: int = 0
    without_crossing: int = 0
    with_few_crossing: int = 0
    words: int = 0
    correct_tags: int = 0

    def add(self, score: SentenceScore) -> None:
        """Add a sentence; one that is not valid counts only in the number of sentences and
        errors."""
        self.sentences += 1
        if score.status is not Status.VALID:
            self.errors += score.status is Status.ERROR
            return
        gold, predicted, matched = len(score.gold), len(score.predicted), len(score.matched)
        self.valid += 1
        self.gold += gold
        self.predicted += predicted
        self.matched += matched
        self.complete += gold == predicted == matched
        self.crossing += score.crossing
        self.without_crossing += score.crossing == 0
        self.with_few_crossing += score.crossing <= 2
        self.words += score.words
        self.correct_tags += score.correct_tags

    def plus(self, other: _Totals) -> _Totals:
        """Return the sums over the sentences of both."""
        names = [each.name for each in fields(self)]
        return _Totals(*(getattr(self, name) + getattr(other, name) for name in names))

    def summary(self) -> Summary:
        valid = self.valid
        recall = percent(self.matched, self.gold)
        precision = percent(self.matched, self.predicted)
        both = precision + recall
        return Summary(
            sentences=self.sentences,
            errors=self.errors,
            skipped=self.sentences - self.errors - self.valid,
            valid=valid,
            recall=recall,
            precision=precision,
            f1=2 * precision * recall / both if both else 0.0,
            complete_match=percent(self.complete, valid),
            average_crossing=self.crossing / valid if valid else 0.0,
            no_crossing=percent(self.without_crossing, valid),
            two_or_less_crossing=percent(self.with_few_crossing, valid),
            tagging_accuracy=percent(self.correct_tags, self.words),
            gold_constituents=self.gold,
            predicted_constituents=self.predicted,
            matched_constituents=self.matched,
            crossing_constituents=self.crossing,
            words=self.words,
            correct_tags=self.correct_tags,
        )


def summarize(scores: Iterable[SentenceScore], parameters: Parameters) -> Scores:
    """Sum up the scores of sentences, a few sentences at a time."""
    short, long = _Totals(), _Totals()
    labels: tuple[Counter[str], ...] = (Counter(), Counter(), Counter())
    scores = iter(scores)
    while some := list(islice(scores, AT_A_TIME)):
        for score in some:
            (short if score.length <= parameters.cutoff else long).add(score)
        valid = [score for score in some if score.status is Status.VALID]
        labels[0].update(chain.from_iterable(score.gold for score in valid))
        labels[1].update(chain.from_iterable(score.predicted for score in valid))
        labels[2].update(chain.from_iterable(score.matched for score in valid))
    return Scores(
        all=short.plus(long).summary(),
        short=short.summary(),
        cutoff=parameters.cutoff,
        parameters=parameters.name,
        labels=_label_counts(labels, parameters.counted_as),
    )


def _label_counts(
    labels: tuple[Counter[str], ...], counted_as: dict[str, str]
) -> dict[str, LabelCount]:
    merged = tuple(Counter[str]() for _ in labels)
    for whole, counter in zip(merged, labels, strict=True):
        for label, count in counter.items():
            whole[counted_as.get(label, label)] += count
    return {
        label: LabelCount(*(counter[label] for counter in merged))
        for label in sorted(set().union(*merged))
    }

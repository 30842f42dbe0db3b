"""The score of a sentence as `score_plainly` has it, in less than half the time, if nothing is odd.

Most sentences have balanced brackets and the same words on both sides. Two things save time there:

- What stands between one word and the next, as `)) (VP (VBD`, comes again and again, and is looked
  up instead of read.
- A line is read from its end. Each bracket that closes a constituent puts down where that ends, and
  the one that opens it takes up the last of these places.
"""

from __future__ import annotations

import re
from itertools import compress
from operator import itemgetter
from typing import NamedTuple

from fairseq_aiayn.treebank.evalb.bracketing import Constituent, without_function_tags
from fairseq_aiayn.treebank.evalb.parameters import Parameters
from fairseq_aiayn.treebank.evalb.sentence import (
    SentenceScore,
    count_correct_tags,
    count_crossing,
    matched_labels,
)
from fairseq_aiayn.treebank.lines import ATOM, WHITE_SPACE

# A word's form and the bracket behind it; a single space before it, which is found faster
FORM = re.compile(rf" ({ATOM}++)[{WHITE_SPACE}]*+\)")
# What stands before a form: brackets that close constituents, "(LABEL" of others, "(TAG"
BEFORE_FORM = re.compile(rf"[){WHITE_SPACE}]*+(?:\({ATOM}*+[{WHITE_SPACE}]*+)++")
AFTER_LAST = re.compile(rf"[){WHITE_SPACE}]*+")
LABEL = re.compile(rf"\(({ATOM}*+)")

REMEMBERED = 20_000  # texts before a form; the English treebanks tried have some 2,000
FEW_PAIRS = 100  # of constituents, up to which it is fastest to compare each with each

label_of = itemgetter(2)

# From the form to the left: the word's tag or, if it is deleted, None; whether the word counts in
# the length; labels of the constituents that open, None for one that is deleted; how many close
BeforeForm = tuple[str | None, bool, tuple[str | None, ...], int]


class _Tree(NamedTuple):
    """What counts of a tree. The place behind its last word is 0, the one before that word -1."""

    words: list[str]
    tags: list[str]
    constituents: list[Constituent]
    length: int


class _BeforeForms(dict[str, BeforeForm]):
    """What texts before a form say; KeyError for one that is odd."""

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters

    def __missing__(self, text: str) -> BeforeForm:
        if not BEFORE_FORM.fullmatch(text):
            raise KeyError(text)
        deleted, no_constituent = self.parameters.deleted, self.parameters.deleted_constituents
        *labels, tag = LABEL.findall(text)
        labels = map(without_function_tags, reversed(labels))
        if len(self) >= REMEMBERED:
            self.clear()
        self[text] = said = (
            None if tag in deleted else tag,
            tag not in self.parameters.deleted_for_length,
            tuple([None if label in no_constituent else label for label in labels]),
            text.count(")"),
        )
        return said


class FastScorer:
    """Scores sentences with the same parameters."""

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters
        self._before_forms = _BeforeForms(parameters)

    def score(self, gold: str, predicted: str) -> SentenceScore | None:
        """Score two lines as `score_plainly` does; None if there is anything odd in them."""
        gold_tree = self._read(gold)
        if gold_tree is None or not gold_tree.words:
            return None
        predicted_tree = gold_tree if predicted == gold else self._read(predicted)
        if predicted_tree is None or predicted_tree.words != gold_tree.words:
            return None
        return self._compare(gold_tree, predicted_tree)

    def _read(self, line: str) -> _Tree | None:
        """Read a line; None if there is anything odd in it."""
        parts = FORM.split(line)
        parts.reverse()
        if not AFTER_LAST.fullmatch(parts[0]):
            return None
        words: list[str] = []
        tags: list[str] = []
        constituents: list[Constituent] = []
        place = length = 0
        ends = [place] * parts[0].count(")")
        try:
            before_forms = map(self._before_forms.__getitem__, parts[2::2])
            for form, (tag, in_length, labels, closed) in zip(
                parts[1::2], before_forms, strict=True
            ):
                length += in_length
                if tag is not None:
                    words.append(form)
                    tags.append(tag)
                    place -= 1
                for label in labels:
                    end = ends.pop()
                    if label is not None and end != place:
                        constituents.append((place, end, label))
                if closed:
                    ends += (place,) * closed
        except LookupError:  # a text that is odd, or a constituent that no bracket closes
            return None
        constituents.reverse()
        return None if ends else _Tree(words, tags, constituents, length)

    def _compare(self, gold: _Tree, predicted: _Tree) -> SentenceScore:
        """Score two trees over the same words."""
        correct_tags = len(gold.words)
        if gold.tags != predicted.tags:
            correct_tags = count_correct_tags(gold.tags, predicted.tags, self.parameters)
        labels = others = matched = tuple(map(label_of, gold.constituents))
        crossing = 0
        if gold.constituents != predicted.constituents:
            others = tuple(map(label_of, predicted.constituents))
            matched = self._matched(gold.constituents, labels, predicted.constituents, others)
            crossing = _crossing(gold.constituents, predicted.constituents)
        return SentenceScore(
            length=gold.length,
            gold=labels,
            predicted=others,
            matched=matched,
            crossing=crossing,
            words=len(gold.words),
            correct_tags=correct_tags,
        )

    def _matched(
        self,
        gold: list[Constituent],
        labels: tuple[str, ...],
        predicted: list[Constituent],
        others: tuple[str, ...],
    ) -> tuple[str, ...]:
        """Return what `matched_labels` returns, fast where no label here equals a different one."""
        in_predicted = set(predicted)
        alike_only = self.parameters.labeled and not any(
            label in labels and other in others for label, other in self.parameters.same_labels
        )
        if alike_only and len(in_predicted) == len(predicted) and len(set(gold)) == len(gold):
            return tuple(compress(labels, map(in_predicted.__contains__, gold)))
        return matched_labels(gold, predicted, self.parameters)


def _crossing(gold: list[Constituent], predicted: list[Constituent]) -> int:
    """Count as `count_crossing`: what both trees have crosses nothing in either."""
    in_gold = set(gold)
    only_predicted = [each for each in predicted if each not in in_gold]
    only_gold = in_gold.difference(predicted)
    if len(only_gold) * len(only_predicted) > FEW_PAIRS:
        return count_crossing(only_gold, only_predicted)
    count = 0
    for start, end, _ in only_predicted:
        for a, b, _ in only_gold:
            if a < start < b < end or start < a < end < b:
                count += 1
                break
    return count

"""Score usual sentences as `reference_score` does, in less than half the time.

Most sentences have balanced brackets and the same words on both sides. Two things save time for
them:

- The text between one word and the next, such as `)) (VP (VBD`, occurs again and again, so it is
  looked up instead of parsed.
- A line is read from its end. Each bracket that closes a constituent pushes its place on a stack,
  and the bracket that opens the constituent pops the last of these places.
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
from fairseq_aiayn.treebank.symbols import ATOM, WHITE_SPACE

# A word's form and the bracket after it. Requiring a single space before it makes the search faster
FORM = re.compile(rf" ({ATOM}++)[{WHITE_SPACE}]*+\)")
# The text before a form: brackets that close constituents, "(LABEL" of other ones, "(TAG"
BEFORE_FORM = re.compile(rf"[){WHITE_SPACE}]*+(?:\({ATOM}*+[{WHITE_SPACE}]*+)++")
AFTER_LAST = re.compile(rf"[){WHITE_SPACE}]*+")
LABEL = re.compile(rf"\(({ATOM}*+)")

REMEMBERED = 20_000  # texts before a form; the English treebanks that were tried have about 2,000
FEW_PAIRS = 100  # up to so many pairs of constituents, comparing each pair is fastest

label_of = itemgetter(2)

# Read from right to left: the tag of the word, or None if it is deleted; whether the word counts in
# the length; the labels of the constituents that open, None for a deleted one; how many close
BeforeForm = tuple[str | None, bool, tuple[str | None, ...], int]


class _Tree(NamedTuple):
    """The parts of a tree that count. The place after its last word is 0, the place before that
    word is -1."""

    words: list[str]
    tags: list[str]
    constituents: list[Constituent]
    length: int


class _BeforeForms(dict[str, BeforeForm]):
    """The meanings of the texts before a form; raises KeyError for an unusual text."""

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
    """Scores sentences with one set of parameters."""

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters
        self._before_forms = _BeforeForms(parameters)

    def score(self, gold: str, predicted: str) -> SentenceScore | None:
        """Score two lines as `reference_score` does; None if anything in them is unusual."""
        gold_tree = self._read(gold)
        if gold_tree is None or not gold_tree.words:
            return None
        predicted_tree = gold_tree if predicted == gold else self._read(predicted)
        if predicted_tree is None or predicted_tree.words != gold_tree.words:
            return None
        return self._compare(gold_tree, predicted_tree)

    def _read(self, line: str) -> _Tree | None:
        """Read a line; None if anything in it is unusual."""
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
        except LookupError:  # an unusual text, or a constituent that no bracket closes
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
        """Return the result of `matched_labels`, faster if no label here equals a different one."""
        in_predicted = set(predicted)
        alike_only = self.parameters.labeled and not any(
            label in labels and other in others for label, other in self.parameters.same_labels
        )
        if alike_only and len(in_predicted) == len(predicted) and len(set(gold)) == len(gold):
            return tuple(compress(labels, map(in_predicted.__contains__, gold)))
        return matched_labels(gold, predicted, self.parameters)


def _crossing(gold: list[Constituent], predicted: list[Constituent]) -> int:
    """Count as `count_crossing` does; a constituent of both trees crosses nothing in either."""
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

"""EVALB, the scorer of constituency trees that published WSJ results use (section 6.3, Table 4).

It compares labelled spans of words. Its rules, with the parameters of COLLINS.prm:

1. A line is a sentence, in both files. An empty predicted line is skipped (status 2).
2. Words tagged `-NONE-` , : `` '' or . are deleted on both sides. Constituents that hold no other
   word do not count, and neither does TOP. An empty root label, `( (S ...))`, does count.
3. The words that are left must be the same on both sides. Otherwise the sentence is an error
   (status 1), and so is one whose brackets do not balance. An error counts only in the number of
   errors.
4. A label is cut at the first - or =: NP-SBJ and NP=2 are NP. Tags stay unchanged.
5. A predicted constituent matches one gold constituent with the same span and label; ADVP equals
   PRT. A constituent that occurs n times in gold and m times in the prediction matches min(n, m)
   times.
6. Recall is matched / gold, precision is matched / predicted, and F1 is their harmonic mean, over
   all valid sentences together. A predicted constituent that overlaps some gold one, and neither
   contains the other, is crossing. Tagging accuracy is over the words that are left.
7. A second summary has the sentences of at most 40 words, counting gold punctuation but not traces.

Intended differences from the C program:

- There are no limits. The C program stops after MAX_ERROR errors, splits lines of 5,000 bytes, and
  writes outside of its arrays from 200 words or constituents on, or for longer labels.
- Text outside of `(TAG word)` is a ValueError that names the line. The C program repeats the same
  error until MAX_ERROR stops it. `(TAG word )` is read, although the C program refuses it, too.
- Different numbers of lines and empty files are a ValueError. The C program prints a summary of the
  lines that it has read.
- F1 is 0, not NaN, if recall and precision are 0.
- A closing bracket too many is always an error. The C program accepts it if another bracket is not
  closed later, and the figures on the line of such a sentence depend on previous memory content.
- Text must be UTF-8; a byte order mark is dropped.
- A parameter file with an unknown keyword or a wrong value is a ValueError, not a warning.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from enum import IntEnum
from functools import cached_property, lru_cache, partial
from itertools import chain, compress, islice, zip_longest
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from fairseq_aiayn.text import STANDARD_INPUT, in_order, read_lines, source_name, stream_lines
from fairseq_aiayn.treebank.trees import ATOM, WHITE_SPACE

# One line of a tree file as EVALB sees it: words, tags and labelled spans.
#
# `(TAG word)` is a word, and `(X )` is a word without a form. Any other bracket is a constituent,
# even `(X)`. A line may hold several trees, words without a constituent, or nothing. Brackets
# that do not balance are a fault that the score reports; text outside of `(TAG word)` is refused.


# "(LABEL" and, for a word, its form and the closing bracket; or ")"; or an atom by itself
PIECES = re.compile(
    rf"\(({ATOM}*+)(?:[{WHITE_SPACE}]++({ATOM}*+)[{WHITE_SPACE}]*+(\)))?|(\))|({ATOM}++)"
)

QUOTE_FORMS = {"'", '"', "/"}
NEVER_CLOSED = -1

# The number of its first word, the number of its last word plus one, and its label; from 0
Constituent = tuple[int, int, str]


@dataclass(slots=True)
class Quote:
    """A quotation mark that may have to be put back; see quotes.py."""

    tag: str
    word: str
    deleted: bool
    place: int  # number of words before it
    constituents: int  # number of constituents that begin before it
    around: list[int]  # those of them that contain it


@dataclass(slots=True)
class Bracketing:
    """A tree without the words whose tags are deleted; constituents are in the order of their
    opening brackets."""

    words: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    quotes: list[Quote] = field(default_factory=list)
    length: int = 0  # number of words, without those that do not count in a length
    fault: str = ""

    def counted(self, parameters: Parameters) -> list[Constituent]:
        """Return the constituents that count: those that contain a word and are not deleted, with
        function tags removed."""
        deleted = parameters.deleted_constituents
        found = []
        for start, end, label in zip(self.starts, self.ends, self.labels, strict=True):
            if start != end:
                label = without_function_tags(label)
                if label not in deleted:
                    found.append((start, end, label))
        return found


def read_bracketing(line: str, where: str, parameters: Parameters) -> Bracketing:
    """Read one line; raises ValueError, with a message that begins with `where`, for text outside
    of a word."""
    read = Bracketing()
    words, tags, ends = read.words, read.tags, read.ends
    deleted, without_length = parameters.deleted, parameters.deleted_for_length
    pending: list[int] = []  # constituents that are not closed
    for label, word, is_word, closes, stray in PIECES.findall(line):
        if is_word:
            if label not in without_length:
                read.length += 1
            if label in parameters.quote_labels and word in QUOTE_FORMS:
                place = len(words), len(ends), list(pending)
                read.quotes.append(Quote(label, word, label in deleted, *place))
            if label not in deleted:
                words.append(word)
                tags.append(label)
        elif closes:
            if pending:
                ends[pending.pop()] = len(words)
            else:
                read.fault = "a closing bracket too many"
                if ends:  # the C program closes the first constituent again
                    ends[0] = len(words)
        elif stray:
            raise ValueError(f"{where}: {stray!r:.60} must be in brackets of its own, (TAG word)")
        else:
            pending.append(len(ends))
            read.labels.append(label)
            read.starts.append(len(words))
            ends.append(NEVER_CLOSED)
    if pending:
        read.fault = f"brackets that this line does not close: {len(pending)}"
    return read


def without_function_tags(label: str) -> str:
    """Return NP for NP-SBJ-1 and NP=2, and "" for a label that begins with - or =."""
    if "-" in label or "=" in label:
        return label.partition("-")[0].partition("=")[0]
    return label


# EVALB's remedy for misread quotes, which give gold and prediction different numbers of words.
#
# `'` is either a quotation mark, which does not count, or a possessive, which does. If only one
# side gives it a deleted tag, the words of the two sides no longer pair up. QUOTE_LABEL lists the
# tags that are confused in this way. A deleted quote whose counterpart counts is put back.
# COLLINS.prm lists no such tags.


def put_back_quotes(gold: Bracketing, predicted: Bracketing) -> None:
    """Put back, in place, each deleted quote that has a different tag on the other side and counts
    there.

    Two quotes are counterparts if equally many words precede them. The quotes after one that is put
    back move by one word, on that side only.
    """
    for number, quote in enumerate(predicted.quotes):
        place = quote.place  # its place before any counterpart moves it
        for other_number, other in enumerate(gold.quotes):
            if other.place != place or other.tag == quote.tag:
                continue
            if other.deleted and not quote.deleted:
                _put_back(gold, other_number)
            elif quote.deleted and not other.deleted:
                _put_back(predicted, number)


def _put_back(tree: Bracketing, number: int) -> None:
    quote = tree.quotes[number]
    tree.words.insert(quote.place, quote.word)
    tree.tags.insert(quote.place, quote.tag)
    for later in range(quote.constituents, len(tree.ends)):
        tree.starts[later] += 1
        tree.ends[later] += 1
    for outer in quote.around:
        tree.ends[outer] += 1
    for moved in tree.quotes[number:]:
        moved.place += 1


# EVALB's parameter (.prm) files, which say what is left out and what counts as equal.
#
# A line has a keyword and its value; `#` begins a comment line:
#
#     DELETE_LABEL X              delete words with this tag, and the brackets of such constituents
#     DELETE_LABEL_FOR_LENGTH X   words with this tag do not count in the length of a sentence
#     QUOTE_LABEL X               see quotes.py
#     EQ_LABEL X Y, EQ_WORD X Y   the two are equal
#     LABELED 0 or 1              whether constituents must have the same label to match
#     CUTOFF_LEN N                the second summary has the sentences of at most N words
#     DEBUG N, MAX_ERROR N        accepted, but without effect here


Pair = tuple[str, str]

WITHOUT_EFFECT = ("DEBUG", "MAX_ERROR")
MOST_DIGITS = 9  # of a number


@dataclass(frozen=True)
class Parameters:
    """The rules of one parameter file; labels are written as in the trees."""

    name: str
    deleted: frozenset[str] = frozenset()
    deleted_for_length: frozenset[str] = frozenset()
    quote_labels: frozenset[str] = frozenset()
    equal_labels: tuple[Pair, ...] = ()
    equal_words: tuple[Pair, ...] = ()
    labeled: bool = True
    cutoff: int = 40  # words

    @cached_property
    def same_labels(self) -> frozenset[Pair]:
        """`equal_labels` in both directions; the relation is not transitive."""
        return _both_ways(self.equal_labels)

    @cached_property
    def same_words(self) -> frozenset[Pair]:
        """`equal_words` in both directions."""
        return _both_ways(self.equal_words)

    @cached_property
    def deleted_constituents(self) -> frozenset[str]:
        """The labels of constituents that do not count: deleted labels, and labels that equal
        one."""
        return self.deleted | {a for a, b in self.same_labels if b in self.deleted}

    @cached_property
    def counted_as(self) -> dict[str, str]:
        """For each label that equals another one: the label under which both are counted."""
        return {second: first for first, second in reversed(self.equal_labels)}


# The rules of published WSJ scores: punctuation and traces do not count, ADVP equals PRT.
COLLINS = Parameters(
    name="COLLINS",
    deleted=frozenset({"TOP", "-NONE-", ",", ":", "``", "''", "."}),
    deleted_for_length=frozenset({"-NONE-"}),
    equal_labels=(("ADVP", "PRT"),),
)

# EVALB's newer file: more punctuation is deleted, and quotation marks missing on one side are put
# back.
NEW = Parameters(
    name="new",
    deleted=COLLINS.deleted | {"S1", "?", "!"},
    deleted_for_length=COLLINS.deleted_for_length,
    quote_labels=frozenset({"``", "''", "POS", "NN", "CD", "VBZ", ":"}),
    equal_labels=COLLINS.equal_labels,
)
NAMED = {"COLLINS": COLLINS, "COLLINS.prm": COLLINS, "new": NEW, "new.prm": NEW}

LABEL_SETS = {
    "DELETE_LABEL": "deleted",
    "DELETE_LABEL_FOR_LENGTH": "deleted_for_length",
    "QUOTE_LABEL": "quote_labels",
}
PAIRS = {"EQ_LABEL": "equal_labels", "EQ_WORD": "equal_words"}
NUMBERS = {"LABELED": "labeled", "CUTOFF_LEN": "cutoff"}


def find_parameters(name: str) -> Parameters:
    """Return the parameters of a file, or EVALB's own parameters of this name if there is no such
    file.

    Raises the errors of `read_parameters`.
    """
    return NAMED[name] if name in NAMED and not Path(name).is_file() else read_parameters(name)


def read_parameters(path: str | Path) -> Parameters:
    """Read a parameter file; by default, sets are empty, labels must match and the cutoff is 40
    words.

    Raises OSError, and ValueError with the line for an unknown keyword or a wrong value.
    """
    found: dict[str, list] = {field.name: [] for field in fields(Parameters)}
    for where, keyword, values in _settings(Path(path)):
        if keyword in LABEL_SETS:
            found[LABEL_SETS[keyword]] += _take(where, keyword, values, 1)
        elif keyword in PAIRS:
            found[PAIRS[keyword]].append(tuple(_take(where, keyword, values, 2)))
        elif keyword in NUMBERS:
            found[NUMBERS[keyword]].append(_number(where, keyword, values))
        elif keyword not in WITHOUT_EFFECT:
            raise ValueError(f"{where}: unknown keyword {keyword!r:.60}")
    return Parameters(
        name=Path(path).name,
        **{name: frozenset(found[name]) for name in LABEL_SETS.values()},
        **{name: tuple(found[name]) for name in PAIRS.values()},
        labeled=bool([1, *found["labeled"]][-1]),
        cutoff=[Parameters.cutoff, *found["cutoff"]][-1],
    )


def _settings(path: Path) -> Iterator[tuple[str, str, list[str]]]:
    """Yield the place, the keyword and the values of every line with a keyword."""
    for number, line in enumerate(read_lines(path), start=1):
        keyword, *values = line.split() or [""]
        if keyword and not keyword.startswith("#"):
            yield f"{path}:{number}", keyword, values


def _take(where: str, keyword: str, values: list[str], count: int) -> list[str]:
    if len(values) != count:
        noun = "value" if count == 1 else "values"
        raise ValueError(f"{where}: {keyword} takes {count} {noun}, got {' '.join(values)!r:.60}")
    return values


def _number(where: str, keyword: str, values: list[str]) -> int:
    (value,) = _take(where, keyword, values, 1)
    if not value.isdecimal() or len(value) > MOST_DIGITS:
        rule = f"a whole number of at most {MOST_DIGITS} digits"
        raise ValueError(f"{where}: {keyword} takes {rule}, got {value!r:.60}")
    return int(value)


def _both_ways(pairs: tuple[Pair, ...]) -> frozenset[Pair]:
    return frozenset(pairs) | {(b, a) for a, b in pairs}


# EVALB's score of one sentence: matched and crossing constituents, correct tags.


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


# EVALB's figures over many sentences: over all of them, and over those up to the cutoff length.


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


# Read the lines of a gold and a predicted tree file in pairs, one pair at a time.


def read_line_pairs(gold: str | Path, predicted: str | Path) -> Iterator[tuple[str, str]]:
    """Yield the lines of two files in pairs; either may be gzip (.gz) and one may be "-", standard
    input.

    Raises OSError if a file cannot be read, and ValueError for a file without lines, different
    numbers of lines, bytes that are not UTF-8, and gzip that is cut short.
    """
    paths = gold, predicted
    if all(path == STANDARD_INPUT for path in paths):
        raise ValueError("gold and predicted trees must not both come from standard input")
    texts = [stream_lines(path) for path in paths]
    number = 0
    for number, lines in enumerate(zip_longest(*texts), start=1):
        if None in lines:
            counts = [
                number - 1 if line is None else number + sum(1 for _ in text)
                for line, text in zip(lines, texts, strict=True)
            ]
            raise ValueError(_different_numbers(paths, counts))
        yield lines
    if not number:
        raise ValueError(_different_numbers(paths, [0, 0]))


def _different_numbers(paths: tuple[str | Path, str | Path], counts: list[int]) -> str:
    for path, count in zip(paths, counts, strict=True):
        if not count:
            return f"{source_name(path)}: empty, must have one tree per line"
    gold, predicted = map(source_name, paths)
    return f"{predicted}: must have the {counts[0]:,} lines of {gold}, has {counts[1]:,}"


# Score usual sentences as `reference_score` does, in less than half the time.
#
# Most sentences have balanced brackets and the same words on both sides. Two things save time for
# them:
#
# - The text between one word and the next, such as `)) (VP (VBD`, occurs again and again, so it is
#   looked up instead of parsed.
# - A line is read from its end. Each bracket that closes a constituent pushes its place on a stack,
#   and the bracket that opens the constituent pops the last of these places.


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


# Scores of sentences, and of files of trees.


BATCH = 500  # sentences that a process gets at a time
ALONE = 10  # batches that take less time than starting the processes

_scorer = lru_cache(maxsize=4)(FastScorer)  # cached, because a scorer remembers texts it has read


def score_sentence(gold: str, predicted: str, parameters: Parameters = COLLINS) -> SentenceScore:
    """Score a predicted tree; raises ValueError for text outside of `(TAG word)`."""
    return _scorer(parameters).score(gold, predicted) or reference_score(
        gold, predicted, parameters
    )


def reference_score(
    gold: str,
    predicted: str,
    parameters: Parameters,
    where: tuple[str, str] = ("gold tree", "predicted tree"),
) -> SentenceScore:
    """Score any predicted tree step by step, as the reference for `FastScorer`; raises ValueError,
    with a message that begins with `where`, for text outside of `(TAG word)`."""
    return score_bracketings(
        read_bracketing(gold, where[0], parameters),
        read_bracketing(predicted, where[1], parameters),
        parameters,
    )


def score(pairs: Iterable[tuple[str, str]], parameters: Parameters = COLLINS) -> Scores:
    """Score pairs of a gold and a predicted tree, each on one line.

    Raises ValueError like `score_sentence`.
    """
    return summarize(
        (score_sentence(gold, predicted, parameters) for gold, predicted in pairs), parameters
    )


class _Batch(NamedTuple):
    """Pairs of lines, the number of the first pair, and the error that ended the input, if any."""

    first: int
    pairs: list[tuple[str, str]]
    error: OSError | ValueError | None


def score_files(
    gold: str | Path, predicted: str | Path, parameters: Parameters = COLLINS, workers: int = 1
) -> Iterator[SentenceScore]:
    """Yield the scores of the lines of two files; either may be gzip and one may be "-", standard
    input.

    `workers` processes score a long file. Raises OSError if a file cannot be read or a process is
    killed. Raises ValueError, with file and line, for text outside of `(TAG word)` or not in UTF-8,
    for an empty file, and for different numbers of lines.
    """
    names = source_name(gold), source_name(predicted)
    batches = _batches(read_line_pairs(gold, predicted))
    score_batch = partial(_score_batch, parameters, names)
    first = map(score_batch, islice(batches, ALONE if workers > 1 else None))
    for scores, error in chain(first, in_order(score_batch, batches, workers)):
        yield from scores
        if error:
            raise error


def _batches(pairs: Iterator[tuple[str, str]]) -> Iterator[_Batch]:
    """Group pairs of lines into batches; an error comes in the batch of the pairs before it."""
    batch = _Batch(1, [], None)
    try:
        for pair in pairs:
            batch.pairs.append(pair)
            if len(batch.pairs) == BATCH:
                yield batch
                batch = _Batch(batch.first + BATCH, [], None)
    except (OSError, ValueError) as error:
        batch = batch._replace(error=error)
    yield batch


def _score_batch(
    parameters: Parameters, names: tuple[str, str], batch: _Batch
) -> tuple[list[SentenceScore], OSError | ValueError | None]:
    """Score the pairs of lines up to the first that is refused; return the scores and the error,
    None if there is none."""
    score_fast = _scorer(parameters).score
    scores = []
    for number, (gold, predicted) in enumerate(batch.pairs, start=batch.first):
        scored = score_fast(gold, predicted)
        if scored is None:
            where = f"{names[0]}:{number}", f"{names[1]}:{number}"
            try:
                scored = reference_score(gold, predicted, parameters, where)
            except ValueError as error:
                return scores, error
        scores.append(scored)
    return scores, batch.error


# EVALB's scores as text, with the layout and the spelling of the C program; the counts of such a
# text; the score of a sentence as a dict for JSON.


RULE = "=" * 76
TABLE_HEAD = f"""\
  Sent.                        Matched  Bracket   Cross        Correct Tag
 ID  Len.  Stat. Recal  Prec.  Bracket gold test Bracket Words  Tags Accracy
{RULE}"""
COLUMNS = 12
COUNTS = 2, 5, 6, 7  # the columns of the status, and of matched, gold and predicted constituents


class Constituents(NamedTuple):
    """How many constituents of a sentence count; all are 0 if the sentence does not count."""

    matched: int
    gold: int
    predicted: int


def sentence_line(number: int, score: SentenceScore) -> str:
    """Return the line of one sentence; `number` counts from 1."""
    return (
        f"{number:4d}  {score.length:3d}    {score.status:d}  "
        f"{score.recall:6.2f} {score.precision:6.2f}   "
        f"{len(score.matched):3d}    {len(score.gold):3d}  {len(score.predicted):3d}    "
        f"{score.crossing:3d}   {score.words:4d}  {score.correct_tags:4d}   "
        f"{percent(score.correct_tags, score.words):6.2f}"
    )


def read_constituents(path: str | Path) -> list[Constituents]:
    """Read the lines of sentences from a table of EVALB, ours or the C program's.

    Raises OSError, and ValueError with the line that breaks the layout.
    """
    lines = read_lines(path)
    rules = [number for number, line in enumerate(lines) if line == RULE]
    if len(rules) < 2:
        raise ValueError(f"{path}: must have a table of sentences between two lines of =, has none")
    found = []
    for number in range(rules[0] + 1, rules[1]):
        fields = lines[number].split()
        counts = [fields[column] for column in COUNTS if column < len(fields)]
        if len(fields) != COLUMNS or not all(count.isdecimal() for count in counts):
            raise ValueError(
                f"{path}:{number + 1}: must be a line of EVALB's table, got {lines[number]!r:.60}"
            )
        status, *constituents = map(int, counts)
        found.append(Constituents(*(constituents if status == Status.VALID else (0, 0, 0))))
    return found


def sentence_fields(number: int, score: SentenceScore) -> dict[str, int | float | str]:
    """Return the figures of `sentence_line` by name, and the reason why a sentence does not
    count."""
    return {
        "number": number,
        "status": score.status.name.lower(),
        **({"reason": score.reason} if score.reason else {}),
        "length": score.length,
        "recall": score.recall,
        "precision": score.precision,
        "matched": len(score.matched),
        "gold": len(score.gold),
        "predicted": len(score.predicted),
        "crossing": score.crossing,
        "words": score.words,
        "correct_tags": score.correct_tags,
        "tagging_accuracy": percent(score.correct_tags, score.words),
    }


def totals_lines(total: Summary) -> Iterator[str]:
    """Yield the last lines of the table of sentences."""
    brackets = ""
    if total.gold_constituents and total.predicted_constituents:
        brackets = (
            f"                {total.recall:6.2f} {total.precision:6.2f} "
            f"{total.matched_constituents:6d} {total.gold_constituents:5d} "
            f"{total.predicted_constituents:5d}  {total.crossing_constituents:5d}"
        )
    yield RULE
    yield f"{brackets}  {total.words:5d} {total.correct_tags:5d}   {total.tagging_accuracy:6.2f}"


def summary_lines(scores: Scores) -> Iterator[str]:
    """Yield the lines of both summaries."""
    yield "=== Summary ==="
    for title, summary in (("All", scores.all), (f"len<={scores.cutoff}", scores.short)):
        yield ""
        yield f"-- {title} --"
        yield f"Number of sentence        = {summary.sentences:6d}"
        yield f"Number of Error sentence  = {summary.errors:6d}"
        yield f"Number of Skip  sentence  = {summary.skipped:6d}"
        yield f"Number of Valid sentence  = {summary.valid:6d}"
        yield f"Bracketing Recall         = {summary.recall:6.2f}"
        yield f"Bracketing Precision      = {summary.precision:6.2f}"
        yield f"Bracketing FMeasure       = {summary.f1:6.2f}"
        yield f"Complete match            = {summary.complete_match:6.2f}"
        yield f"Average crossing          = {summary.average_crossing:6.2f}"
        yield f"No crossing               = {summary.no_crossing:6.2f}"
        yield f"2 or less crossing        = {summary.two_or_less_crossing:6.2f}"
        yield f"Tagging accuracy          = {summary.tagging_accuracy:6.2f}"

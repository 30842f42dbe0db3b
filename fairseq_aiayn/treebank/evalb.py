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
from dataclasses import asdict, dataclass, field, replace
from enum import IntEnum
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from fairseq_aiayn.files import read_line_pairs, read_lines, source_name
from fairseq_aiayn.treebank.trees import ATOM, WHITE_SPACE, WRAPPERS, escape_brackets

__all__ = [
    "Counts",
    "TreeScores",
    "find_parameters",
    "remarks",
    "score_files",
    "score_sentence",
    "scores_as_json",
    "scores_as_text",
    "summarize",
]

LabelPair = tuple[str, str]
Counts = tuple[int, int, int]  # of constituents: matched, gold and predicted ones
Span = tuple[int, int, str]  # of a constituent: first word, last word plus one, label; from 0


# Parameters


@dataclass(frozen=True)
class Parameters:
    """The rules of one parameter file; labels are written as in the trees."""

    name: str
    deleted: frozenset[str] = frozenset()
    deleted_for_length: frozenset[str] = frozenset()
    quote_labels: frozenset[str] = frozenset()
    equal_labels: tuple[LabelPair, ...] = ()
    equal_words: tuple[LabelPair, ...] = ()
    labeled: bool = True
    cutoff: int = 40  # words

    @cached_property
    def deleted_constituents(self) -> frozenset[str]:
        """The labels of constituents that do not count: deleted labels, and labels that equal
        one."""
        equal = [pair for pair in self.equal_labels if not self.deleted.isdisjoint(pair)]
        return self.deleted.union(*equal)

    @cached_property
    def counted_as(self) -> dict[str, str]:
        """For each label that equals another one: the label under which both are counted."""
        return {second: first for first, second in reversed(self.equal_labels)}


def are_equal(first: str, second: str, pairs: tuple[LabelPair, ...]) -> bool:
    """Return whether two labels or words are the same or one of the pairs, in either order; the
    relation is not transitive."""
    return first == second or (first, second) in pairs or (second, first) in pairs


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
NAMED_PARAMETERS = {"COLLINS": COLLINS, "COLLINS.prm": COLLINS, "new": NEW, "new.prm": NEW}

# The keywords of a parameter file, with the field that each sets and its number of values
KEYWORDS = {
    "DELETE_LABEL": ("deleted", 1),  # words with this tag, and the brackets of such constituents
    "DELETE_LABEL_FOR_LENGTH": ("deleted_for_length", 1),  # such words do not count in a length
    "QUOTE_LABEL": ("quote_labels", 1),  # see put_back_quotes
    "EQ_LABEL": ("equal_labels", 2),
    "EQ_WORD": ("equal_words", 2),
    "LABELED": ("labeled", 1),  # 0 or 1: whether constituents must have the same label to match
    "CUTOFF_LEN": ("cutoff", 1),  # of the second summary
}
NUMBERS = {"labeled": bool, "cutoff": int}
WITHOUT_EFFECT = ("DEBUG", "MAX_ERROR")  # accepted


def find_parameters(name: str) -> Parameters:
    """Return the parameters of a file, or EVALB's own parameters of this name if there is no such
    file; raises the errors of `read_parameters`."""
    return (
        NAMED_PARAMETERS[name]
        if name in NAMED_PARAMETERS and not Path(name).is_file()
        else read_parameters(name)
    )


def read_parameters(path: str | Path) -> Parameters:
    """Read a parameter file: a keyword and its values on each line; `#` begins a comment line.

    By default, sets are empty, labels must match and the cutoff is 40 words. Of a repeated number,
    the last one counts. Raises OSError, and ValueError with the line for an unknown keyword or a
    wrong value.
    """
    parameters = Parameters(Path(path).name)
    for number, line in enumerate(read_lines(path), start=1):
        keyword, *values = line.split() or ["#"]
        if keyword.startswith("#") or keyword in WITHOUT_EFFECT:
            continue
        if keyword not in KEYWORDS:
            raise ValueError(f"{path}:{number}: unknown keyword {keyword!r}")
        name, count = KEYWORDS[keyword]
        if len(values) != count or (name in NUMBERS and not values[0].isdecimal()):
            kind = "number" if name in NUMBERS else "value"
            expected = f"expected {count} {kind}(s) for {keyword}"
            raise ValueError(f"{path}:{number}: {expected}, got {' '.join(values)!r}")
        before = getattr(parameters, name)
        value: Any
        if name in NUMBERS:
            value = NUMBERS[name](int(values[0]))
        else:
            value = (*before, tuple(values)) if count == 2 else before | {*values}
        parameters = replace(parameters, **{name: value})
    return parameters


# One line of a tree file: words, tags and labelled spans


# "(LABEL" and, for a word, its form and the closing bracket; or ")"; or an atom by itself. A form
# is optional, not possibly empty, so that there is one way only to match white space
BRACKETED_WORD = rf"(?=[{WHITE_SPACE}])(?:[{WHITE_SPACE}]+({ATOM}+))?[{WHITE_SPACE}]*(\))"
PIECES = re.compile(rf"\(({ATOM}*)(?:{BRACKETED_WORD})?|(\))|({ATOM}+)")
QUOTE_FORMS = {"'", '"', "/"}
NEVER_CLOSED = -1


@dataclass(slots=True)
class Quote:
    """A quotation mark that may have to be put back; see `put_back_quotes`."""

    tag: str
    word: str
    deleted: bool
    position: int  # number of words before it
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

    def counted(self, parameters: Parameters) -> list[Span]:
        """Return the constituents that count: those that contain a word and are not deleted, with
        function tags removed."""
        labels = map(without_function_tags, self.labels)
        return [
            (start, end, label)
            for start, end, label in zip(self.starts, self.ends, labels, strict=True)
            if start != end and label not in parameters.deleted_constituents
        ]


def read_bracketing(line: str, where: str, parameters: Parameters) -> Bracketing:
    """Read one line, which may hold several trees, words without a constituent, or nothing.

    `(TAG word)` is a word, and `(X )` is a word without a form. Any other bracket is a constituent,
    even `(X)`. Brackets that do not balance are a fault that the score reports. Raises ValueError,
    with a message that begins with `where`, for text outside of a word.
    """
    tree = Bracketing()
    words, tags, ends = tree.words, tree.tags, tree.ends
    deleted, without_length = parameters.deleted, parameters.deleted_for_length
    pending: list[int] = []  # constituents that are not closed
    for label, word, is_word, closes, stray in PIECES.findall(escape_brackets(line)):
        if is_word:
            if label not in without_length:
                tree.length += 1
            if label in parameters.quote_labels and word in QUOTE_FORMS:
                place = len(words), len(ends), list(pending)
                tree.quotes.append(Quote(label, word, label in deleted, *place))
            if label not in deleted:
                words.append(word)
                tags.append(label)
        elif closes:
            if pending:
                ends[pending.pop()] = len(words)
            else:
                tree.fault = "a closing bracket too many"
                if ends:  # the C program closes the first constituent again
                    ends[0] = len(words)
        elif stray:
            raise ValueError(f"{where}: expected (TAG word), got {stray!r} outside of a word")
        else:
            pending.append(len(ends))
            tree.labels.append(label)
            tree.starts.append(len(words))
            ends.append(NEVER_CLOSED)
    if pending:
        tree.fault = f"brackets that this line does not close: {len(pending)}"
    return tree


def without_function_tags(label: str) -> str:
    """Return NP for NP-SBJ-1 and NP=2, and "" for a label that begins with - or =."""
    return label.partition("-")[0].partition("=")[0]


# Quotation marks. `'` is either a quotation mark, which does not count, or a possessive, which
# does. If only one side gives it a deleted tag, the words of the two sides no longer pair up.
# QUOTE_LABEL lists the tags that are confused in this way; COLLINS.prm lists none.


def put_back_quotes(gold: Bracketing, predicted: Bracketing) -> None:
    """Put back, in place, each deleted quote that has a different tag on the other side and counts
    there. Two quotes are counterparts if equally many words precede them. The quotes after one that
    is put back move by one word, on that side only."""
    for number, quote in enumerate(predicted.quotes):
        position = quote.position  # before any counterpart moves it
        for other_number, other in enumerate(gold.quotes):
            if other.position != position or other.tag == quote.tag:
                continue
            if other.deleted and not quote.deleted:
                _put_back(gold, other_number)
            elif quote.deleted and not other.deleted:
                _put_back(predicted, number)


def _put_back(tree: Bracketing, number: int) -> None:
    quote = tree.quotes[number]
    tree.words.insert(quote.position, quote.word)
    tree.tags.insert(quote.position, quote.tag)
    for later in range(quote.constituents, len(tree.ends)):
        tree.starts[later] += 1
        tree.ends[later] += 1
    for outer in quote.around:
        tree.ends[outer] += 1
    for moved in tree.quotes[number:]:
        moved.position += 1


# The score of one sentence


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
    balanced: bool = True  # whether the brackets of both lines are
    gold: tuple[str, ...] = ()  # labels of the constituents that count
    predicted: tuple[str, ...] = ()
    matched: tuple[str, ...] = ()  # the gold labels of the constituents that match
    crossing: int = 0  # predicted constituents that cross a gold one
    words: int = 0  # number of words that are not deleted
    correct_tags: int = 0
    roots: tuple[str, ...] = ()  # the labels of the outermost brackets: gold's, the predicted one's

    @property
    def counts(self) -> Counts:
        """What the sentence adds to the totals; nothing if it does not count."""
        if self.status is not Status.VALID:
            return 0, 0, 0
        return len(self.matched), len(self.gold), len(self.predicted)


def percent(part: int, whole: int) -> float:
    """Return 100 * part / whole, or 0 if `whole` is 0."""
    return 100.0 * part / whole if whole else 0.0


def score_sentence(
    gold: str,
    predicted: str,
    parameters: Parameters = COLLINS,
    where: tuple[str, str] = ("gold tree", "predicted tree"),
) -> SentenceScore:
    """Score a predicted tree; raises ValueError, with a message that begins with `where`, for text
    outside of `(TAG word)`."""
    gold_tree = read_bracketing(gold, where[0], parameters)
    tree = read_bracketing(predicted, where[1], parameters)
    if not tree.words:
        return SentenceScore(gold_tree.length, Status.SKIPPED, "no words to score")
    if len(gold_tree.words) != len(tree.words):
        put_back_quotes(gold_tree, tree)
    reason = _difference(gold_tree.words, tree.words, parameters)
    fault = f"gold: {gold_tree.fault}" if gold_tree.fault else tree.fault
    if reason:
        return SentenceScore(gold_tree.length, Status.ERROR, fault or reason, balanced=not fault)
    gold_spans, spans = gold_tree.counted(parameters), tree.counted(parameters)
    return SentenceScore(
        length=gold_tree.length,
        # A sentence with a fault is left out of the totals, but its own line has figures
        status=Status.ERROR if fault else Status.VALID,
        reason=fault,
        balanced=not fault,
        gold=tuple([label for *_, label in gold_spans]),
        predicted=tuple([label for *_, label in spans]),
        matched=matched_labels(gold_spans, spans, parameters),
        crossing=count_crossing(gold_spans, spans),
        words=len(gold_tree.words),
        correct_tags=count_correct_tags(gold_tree.tags, tree.tags, parameters),
        roots=(*gold_tree.labels[:1], *tree.labels[:1]),
    )


def _difference(gold: Sequence[str], predicted: Sequence[str], parameters: Parameters) -> str:
    """Return how the words differ; "" if they are the same."""
    if len(gold) != len(predicted):
        return f"{len(predicted)} words to score where gold has {len(gold)}"
    for expected, word in zip(gold, predicted, strict=True):
        if not are_equal(expected, word, parameters.equal_words):
            return f"the word {word!r:.60} where gold has {expected!r:.60}"
    return ""


def matched_labels(
    gold: Sequence[Span], predicted: Sequence[Span], parameters: Parameters
) -> tuple[str, ...]:
    """Pair each gold constituent with the first free predicted one that matches it; return the gold
    labels of the pairs."""
    free: dict[tuple[int, int], list[str]] = defaultdict(list)
    for start, end, label in predicted:
        free[start, end].append(label)
    matched = []
    for start, end, label in gold:
        others = free.get((start, end), [])
        for index, other in enumerate(others):
            if not parameters.labeled or are_equal(label, other, parameters.equal_labels):
                del others[index]
                matched.append(label)
                break
    return tuple(matched)


def count_crossing(gold: Sequence[Span], predicted: Sequence[Span]) -> int:
    """Count the predicted constituents that share words with a gold one, where neither contains the
    other. One whose span is also in the gold tree crosses nothing there."""
    spans = {(start, end) for start, end, _ in gold}
    return sum(
        any(a < start < b < end or start < a < end < b for a, b in spans)
        for start, end, _ in predicted
        if (start, end) not in spans
    )


def count_correct_tags(
    gold: Sequence[str], predicted: Sequence[str], parameters: Parameters
) -> int:
    """Count the words that have the gold tag or a tag that equals it."""
    equal = parameters.equal_labels
    return sum(are_equal(a, b, equal) for a, b in zip(gold, predicted, strict=True))


# The figures of many sentences


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
class TreeScores:
    """The output of `aiayn evalb --json`; equal labels are counted under one of them (ADVP for
    PRT)."""

    all: Summary
    short: Summary  # sentences of at most `cutoff` words
    cutoff: int
    parameters: str
    labels: dict[str, LabelCount]


def score_files(
    gold: str | Path, predicted: str | Path, parameters: Parameters = COLLINS
) -> Iterator[SentenceScore]:
    """Yield the scores of the lines of two files; either may be gzip and one may be "-", standard
    input. Raises the errors of `read_line_pairs`, and ValueError, with file and line, for text
    outside of `(TAG word)`."""
    names = source_name(gold), source_name(predicted)
    balanced = True
    try:
        for number, lines in enumerate(read_line_pairs(gold, predicted), start=1):
            where = f"{names[0]}:{number}", f"{names[1]}:{number}"
            score = score_sentence(*lines, parameters, where)
            balanced = balanced and score.balanced
            yield score
    except ValueError as error:
        raise error if balanced else ValueError(f"{error}; {ONE_LINE}") from error


def summarize(scores: Iterable[SentenceScore], parameters: Parameters = COLLINS) -> TreeScores:
    """Sum up the scores of sentences."""
    scores = [*scores]
    labels: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for score in _valid(scores):
        for column, found in enumerate((score.gold, score.predicted, score.matched)):
            for label in found:
                labels[parameters.counted_as.get(label, label)][column] += 1
    return TreeScores(
        all=_summary(scores),
        short=_summary([score for score in scores if score.length <= parameters.cutoff]),
        cutoff=parameters.cutoff,
        parameters=parameters.name,
        labels={label: LabelCount(*labels[label]) for label in sorted(labels)},
    )


def _valid(scores: Sequence[SentenceScore]) -> list[SentenceScore]:
    return [score for score in scores if score.status is Status.VALID]


def _summary(scores: Sequence[SentenceScore]) -> Summary:
    valid = _valid(scores)
    gold = sum(len(score.gold) for score in valid)
    predicted = sum(len(score.predicted) for score in valid)
    matched = sum(len(score.matched) for score in valid)
    crossing = [score.crossing for score in valid]
    words = sum(score.words for score in valid)
    correct_tags = sum(score.correct_tags for score in valid)
    recall, precision = percent(matched, gold), percent(matched, predicted)
    both = precision + recall
    complete = sum(len(s.gold) == len(s.predicted) == len(s.matched) for s in valid)
    return Summary(
        sentences=len(scores),
        errors=sum(score.status is Status.ERROR for score in scores),
        skipped=sum(score.status is Status.SKIPPED for score in scores),
        valid=len(valid),
        recall=recall,
        precision=precision,
        f1=2 * precision * recall / both if both else 0.0,
        complete_match=percent(complete, len(valid)),
        average_crossing=sum(crossing) / len(valid) if valid else 0.0,
        no_crossing=percent(crossing.count(0), len(valid)),
        two_or_less_crossing=percent(sum(count <= 2 for count in crossing), len(valid)),
        tagging_accuracy=percent(correct_tags, words),
        gold_constituents=gold,
        predicted_constituents=predicted,
        matched_constituents=matched,
        crossing_constituents=sum(crossing),
        words=words,
        correct_tags=correct_tags,
    )


# TreeScores as text, with the layout and the spelling of the C program, and as JSON


LISTED_SENTENCES = 10  # sentences that do not count
ONE_LINE = "there must be one tree per line (aiayn linearize FILE --trees OUT > /dev/null)"
RULE = "=" * 76
TABLE_HEAD = f"""\
  Sent.                        Matched  Bracket   Cross        Correct Tag
 ID  Len.  Stat. Recal  Prec.  Bracket gold test Bracket Words  Tags Accracy
{RULE}"""
SENTENCE = (
    "{number:4d}  {length:3d}    {status:d}  {recall:6.2f} {precision:6.2f}   {matched:3d}    "
    "{gold:3d}  {predicted:3d}    {crossing:3d}   {words:4d}  {correct_tags:4d}   "
    "{tagging_accuracy:6.2f}"
)


def scores_as_text(scores: TreeScores, sentences: Sequence[SentenceScore] = ()) -> Iterator[str]:
    """Yield the lines of both summaries, after a table of the sentences if they are given."""
    if sentences:
        yield TABLE_HEAD
        for number, score in enumerate(sentences, start=1):
            yield sentence_line(number, score)
        yield from totals_lines(scores.all)
    yield from summary_lines(scores)


def scores_as_json(scores: TreeScores, sentences: Sequence[SentenceScore] = ()) -> dict[str, Any]:
    """Return what `as_text` has as JSON, with counts per label, and the reason why a sentence does
    not count."""
    listed = [
        {"number": number, "status": score.status.name.lower()}
        | ({"reason": score.reason} if score.reason else {})
        | figures(score)
        for number, score in enumerate(sentences, start=1)
    ]
    return asdict(scores) | ({"sentences": listed} if listed else {})


def sentence_line(number: int, score: SentenceScore) -> str:
    """Return the line of one sentence; `number` counts from 1."""
    return SENTENCE.format(number=number, status=score.status, **figures(score))


def figures(score: SentenceScore) -> dict[str, int | float]:
    """Return the figures of a sentence by name."""
    matched, gold, predicted = map(len, (score.matched, score.gold, score.predicted))
    return {
        "length": score.length,
        "recall": percent(matched, gold),
        "precision": percent(matched, predicted),
        "matched": matched,
        "gold": gold,
        "predicted": predicted,
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


def summary_lines(scores: TreeScores) -> Iterator[str]:
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


def remarks(sentences: Sequence[SentenceScore], parameters: Parameters, name: str) -> Iterator[str]:
    """Yield which sentences of the file `name` do not count, and why; then what is probably wrong
    with it: lines that are no whole tree, and roots with another label than gold's, if one of the
    two counts."""
    uncounted = [
        f"{name}:{number}: {score.status.name.lower()}: {score.reason}"
        for number, score in enumerate(sentences, start=1)
        if score.status is not Status.VALID
    ]
    yield from uncounted[:LISTED_SENTENCES]
    if len(uncounted) > LISTED_SENTENCES:
        yield f"{name}: {len(uncounted):,} sentences do not count"
    if unbalanced := sum(not score.balanced for score in sentences):
        what = f"{unbalanced:,} lines are no whole tree, and nothing of them counts"
        yield f"warning: {what}: {ONE_LINE}"
    valid = [score for score in sentences if len(score.roots) > 1]
    different = Counter(
        score.roots
        for score in valid
        if score.roots[0] != score.roots[1] and score.gold[:1] != score.predicted[:1]
    )
    for (gold, predicted), count in different.most_common(1):
        # A parser may write NP for S; half of the time, or for TOP, it is another format
        if 2 * count > len(valid) or not WRAPPERS.isdisjoint((gold, predicted)):
            counted = {gold, predicted} - parameters.deleted_constituents
            yield (
                f"warning: the root is {gold or 'no label'} in gold and {predicted or 'no label'} "
                f"in the prediction, in {count:,} of {len(valid):,} sentences; "
                f"{' and '.join(label or 'it' for label in sorted(counted))} counts as a "
                "constituent: write the same in both"
            )

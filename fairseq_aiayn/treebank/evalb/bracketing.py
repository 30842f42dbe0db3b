"""One line of a tree file as EVALB sees it: words, tags and labelled spans.

`(TAG word)` is a word, and `(X )` is a word without a form. Any other bracket is a constituent,
even `(X)`. A line may hold several trees, words without a constituent, or nothing. Brackets that do
not balance are a fault that the score reports; text outside of `(TAG word)` is refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from fairseq_aiayn.treebank.evalb.parameters import Parameters
from fairseq_aiayn.treebank.symbols import ATOM, WHITE_SPACE

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

"""Turn any sequence of symbols, as a model may write it, into a tree over given words.

The rules apply symbol by symbol, from left to right. The name under which a repair is counted is in
parentheses:

- "(LABEL" opens a constituent. If too many constituents are already open, it is left out together
  with the bracket that closes it (too deep).
- A tag or XX takes the next word, or is left out if no word is left (surplus words). If all tags of
  the sentence are Penn tags, one that would make EVALB count a punctuation mark, or delete a word,
  is replaced (punctuation tags). Tags of other treebanks stay: $. and PU, for example.
- ")LABEL" closes the innermost constituent if it has this label. If another open constituent has
  the label, those inside it are closed first (unclosed, each). If none has it, the innermost one is
  closed anyway (mismatched). If none is open, the symbol is left out (surplus brackets).
- Any other symbol is left out (unknown symbols): <unk>, <s>, a bracket without a label.
- At the end, the words that are left go into the innermost open constituent. If none is open, they
  go to the end of the last child of TOP if that is a constituent, else under TOP itself (missing
  words, each word). Then all open constituents are closed (unclosed, each).
- A constituent without a word is left out when it is closed (empty constituents).

A well-formed sequence needs no repair except of punctuation tags. A repaired tree that is
linearized again needs no repair at all.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from fairseq_aiayn.treebank.linearization import ANY_WORD, MAX_OPEN, require_word, split_symbol
from fairseq_aiayn.treebank.trees import ROOT_LABEL, Constituent, Word

__all__ = ["RepairReport", "repair"]


class Rule(str, Enum):
    """The names of the repairs, in the order of reports."""

    MISSING_WORDS = "missing words"
    SURPLUS_WORDS = "surplus words"
    UNCLOSED = "unclosed"
    MISMATCHED = "mismatched"
    SURPLUS_BRACKETS = "surplus brackets"
    EMPTY_CONSTITUENTS = "empty constituents"
    UNKNOWN_SYMBOLS = "unknown symbols"
    TOO_DEEP = "too deep"
    PUNCTUATION_TAGS = "punctuation tags"


REPAIRS = tuple(rule.value for rule in Rule)


class Repair(NamedTuple):
    """A tree, and how often each repair was applied; repairs that were not needed are left out."""

    tree: Constituent
    repairs: dict[str, int]

    @property
    def well_formed(self) -> bool:
        """Whether the sequence was a tree over the words but for punctuation tags."""
        return not self.repairs.keys() - {Rule.PUNCTUATION_TAGS}


def repair(tokens: Sequence[str], words: Sequence[str], keep_tags: bool = False) -> Repair:
    """Turn any sequence of symbols into a tree over exactly `words`, in linear time, the reverse of
    `linearize` except for punctuation tags, which `keep_tags` keeps too; raises ValueError if there
    is no word, or a word that contains white space or a bracket."""
    if not words:
        raise ValueError("a tree must have at least one word, got none")
    for word in words:
        require_word(word)
    symbols = [split_symbol(token) for token in tokens]
    tags = [name for bracket, name in symbols if name and not bracket]  # surplus ones say nothing
    forest = _Forest(keep_tags or not are_penn_tags({*tags[: len(words)]}))
    used = 0
    for bracket, name in symbols:
        if not name:
            forest.repairs[Rule.UNKNOWN_SYMBOLS] += 1
        elif bracket == "(":
            forest.open(name)
        elif bracket == ")":
            forest.close(name)
        elif used < len(words):
            forest.append_word(name, words[used])
            used += 1
        else:
            forest.repairs[Rule.SURPLUS_WORDS] += 1
    forest.append_missing(words[used:])
    forest.close_unclosed(None)
    counts = {name: forest.repairs[name] for name in REPAIRS if forest.repairs[name]}
    return Repair(Constituent(ROOT_LABEL, tuple(forest.children)), counts)


class _Open(NamedTuple):
    """An open constituent; if it is too deep, it shares its children with the one around it."""

    label: str
    children: list[Constituent | Word]
    too_deep: bool


class _Forest:
    """The constituents and words under TOP, including the constituents that are still open."""

    def __init__(self, keep_tags: bool) -> None:
        self.keep_tags = keep_tags
        self.children: list[Constituent | Word] = []
        self.repairs: Counter[str] = Counter()
        self._open: list[_Open] = []
        self._labels: Counter[str] = Counter()  # of the open ones

    def append_word(self, symbol: str, form: str) -> None:
        """Put the next word into the innermost open constituent."""
        word = self._tagged(symbol, form)
        self.repairs[Rule.PUNCTUATION_TAGS] += word.tag != symbol != ANY_WORD
        self._innermost_children().append(word)

    def _tagged(self, symbol: str, form: str) -> Word:
        return Word(symbol if self.keep_tags else fitting_tag(symbol, form), form)

    def open(self, label: str) -> None:
        """Open a constituent."""
        too_deep = len(self._open) >= MAX_OPEN
        self.repairs[Rule.TOO_DEEP] += too_deep
        children = self._innermost_children() if too_deep else []
        self._open.append(_Open(label, children, too_deep))
        self._labels[label] += 1

    def close(self, label: str) -> None:
        """Close the innermost constituent with this label; see the rules above if there is none."""
        if not self._open:
            self.repairs[Rule.SURPLUS_BRACKETS] += 1
            return
        if self._labels[label]:
            self.close_unclosed(label)
        else:
            self.repairs[Rule.MISMATCHED] += 1
        self._close_innermost()

    def append_missing(self, forms: Sequence[str]) -> None:
        """Put the words without symbols at the end."""
        words = [self._tagged(ANY_WORD, form) for form in forms]
        self.repairs[Rule.MISSING_WORDS] += len(words)
        last = self.children[-1] if self.children else None
        if words and not self._open and isinstance(last, Constituent):
            self.children[-1] = Constituent(last.label, (*last.children, *words))
        else:
            self._innermost_children().extend(words)

    def close_unclosed(self, label: str | None) -> None:
        """Close the constituents inside the innermost one with this label, or all for None."""
        while self._open and self._open[-1].label != label:
            self.repairs[Rule.UNCLOSED] += not self._open[-1].too_deep
            self._close_innermost()

    def _close_innermost(self) -> None:
        label, children, too_deep = self._open.pop()
        self._labels[label] -= 1
        if too_deep:
            return
        if children:
            self._innermost_children().append(Constituent(label, tuple(children)))
        else:
            self.repairs[Rule.EMPTY_CONSTITUENTS] += 1

    def _innermost_children(self) -> list[Constituent | Word]:
        return self._open[-1].children if self._open else self.children


@dataclass
class RepairReport:
    """Counts of the repairs that sequences needed."""

    sentences: int = 0
    well_formed: int = 0
    repairs: Counter[str] = field(default_factory=Counter)
    sentences_with: Counter[str] = field(default_factory=Counter)

    @property
    def share_well_formed(self) -> float:
        """The percentage of the sentences whose sequence needs no repair."""
        return 100 * self.well_formed / self.sentences if self.sentences else 0.0

    def add(self, repaired: Repair) -> None:
        """Count another sentence."""
        self.sentences += 1
        self.well_formed += repaired.well_formed
        self.repairs.update(repaired.repairs)
        self.sentences_with.update(repaired.repairs.keys())

    def as_json(self) -> dict[str, int | dict[str, int]]:
        """Return the counts, with one entry for every repair, in the order of REPAIRS."""
        return {
            "sentences": self.sentences,
            "well_formed": self.well_formed,
            "repairs": {name: self.repairs[name] for name in REPAIRS},
            "sentences_with": {name: self.sentences_with[name] for name in REPAIRS},
        }

    def lines(self) -> list[str]:
        """Return the counts as text: a line of totals, and one for each repair that was needed."""
        well_formed = f"{self.well_formed:,} well-formed ({self.share_well_formed:.2f}%)"
        lines = [f"{self.sentences:,} sentences, {well_formed}"]
        for name in REPAIRS:
            if self.repairs[name]:
                count, sentences = self.repairs[name], self.sentences_with[name]
                lines.append(f"{name:18} {count:9,} in {sentences:,} sentences")
        return lines


# The Penn Treebank's tags of punctuation
#
# EVALB deletes the words tagged , : `` '' and . from both trees. If different words are left, the
# sentence is an error and does not count. So a form must be deleted exactly where the treebank's
# tag deletes it; which of the five tags it gets matters only for tagging accuracy.
#
# These forms are doubtful; their tags were counted in 3,396 sentences of the WSJ and all of GUM:
#
# "  opens and closes equally often; both of its tags are deleted
# '  has no tag here: it is a possessive six times in seven in the WSJ, and a quotation mark three
#    times in four in GUM. So one sentence in 380 of the WSJ and one in 240 of GUM is an error; with
#    the tag of a quotation mark it would be one in 60 and one in 290
# ’  has no tag here, because it is more often a possessive
# -  has no tag here: in GUM it joins the parts of a compound (HYPH) in 1,040 of 1,204 places, and
#    in the WSJ it hardly ever occurs by itself
# -- and the dashes – and — are ":", as always in the WSJ; GUM tags 62 of 982 as HYPH or SYM
# (  and the other brackets have no tag here: EVALB does not delete -LRB- and -RRB-
# %  has no tag here, nor have $ & # / and @: neither treebank ever deletes them


FORMS = {
    ",": (",",),
    ".": (".", "?", "!"),
    ":": (":", ";", "--", "–", "—", "––", "..", "...", "…", "[...]", "•"),
    "``": ("``", "`", "“", "‘"),
    "''": ("''", '"', "”"),
}
TAG_OF = {form: tag for tag, forms in FORMS.items() for form in forms}
# Treebanks delete these in some sentences and count them in others, so the model's tag decides.
EITHER = frozenset(("'", "’", "-", "--", "–", "—"))
NOT_OF_WORDS = frozenset((ANY_WORD, "-NONE-", "TOP"))  # no tag, that of a trace and of the root
# The tags of the WSJ, -NONE- and XX; the tags that later English treebanks have in addition
PENN_TAG = re.compile(
    r"CC|CD|DT|EX|FW|IN|JJ[RS]?|LS|MD|NNP?S?|PDT|POS|PRP\$?|RB[RS]?|RP|SYM|TO|UH|VB[DGNPZ]?|WDT|"
    r"WP\$?|WRB|[#$,.:]|``|''|-[LR][RSC]B-|-NONE-|TOP|XX|HYPH|AFX|ADD|NFP|GW"
)


def are_penn_tags(tags: Iterable[str]) -> bool:
    """Return whether all are tags of English treebanks, or alternatives of them, as NN|JJ."""
    return all(PENN_TAG.fullmatch(part) for tag in tags for part in tag.split("|"))


def fitting_tag(tag: str, form: str) -> str:
    """Return a word's Penn tag, or another one if EVALB would delete a word or count a punctuation
    mark because of it, which makes the sentence an error; for XX, the tag of its form."""
    is_wrong = form not in EITHER and (form in TAG_OF) != (tag in FORMS)
    return TAG_OF.get(form, ANY_WORD) if is_wrong or tag in NOT_OF_WORDS else tag

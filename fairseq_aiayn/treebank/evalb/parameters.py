"""EVALB's parameter (.prm) files, which say what is left out and what counts as equal.

A line has a keyword and its value; `#` begins a comment line:

    DELETE_LABEL X              delete words with this tag, and the brackets of such constituents
    DELETE_LABEL_FOR_LENGTH X   words with this tag do not count in the length of a sentence
    QUOTE_LABEL X               see quotes.py
    EQ_LABEL X Y, EQ_WORD X Y   the two are equal
    LABELED 0 or 1              whether constituents must have the same label to match
    CUTOFF_LEN N                the second summary has the sentences of at most N words
    DEBUG N, MAX_ERROR N        accepted, but without effect here
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path

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
    try:
        lines = path.read_bytes().decode("utf-8-sig").split("\n")
    except UnicodeDecodeError:
        raise ValueError(f"{path}: must be UTF-8, is not") from None
    for number, line in enumerate(lines, start=1):
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

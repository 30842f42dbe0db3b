"""What treebanks of other conventions have in brackets where the Penn Treebank has words."""

from __future__ import annotations

import re
from collections.abc import Callable

from fairseq_aiayn.treebank.trees import WRAPPERS, Constituent, Word, words_of

TRACE = "-NONE-"
# In Penn's treebanks of historical English, and others after them: "( (IP-MAT ...) (ID X,1.2))"
ID, NO_TEXT = "ID", {"CODE", "LEMMA", "METADATA", "VERSION"}
EMPTY = re.compile(r"(0|\*(?:[^*]+\*?)?)(-\d+)?")  # there, a trace without a tag of its own
# Elsewhere, such a form is a trace that has lost its tag; but *sigh* may be a word
LOST_TRACE = re.compile(r"\*(T\d*|0|ICH|EXP|RNR|PPA|U|NOT|PRO)\*(-\w+)?|\*-\d+")
FEATURES = "##"  # of SPMRL: (DET##lem=le|cpos=D## Le)
NUMBERED = re.compile(r"(\d+)=(.+)")  # of trees with crossing branches: (NN 1=dog)


def without_features(label: str) -> str:
    """Return a label, or a tag, without SPMRL's features."""
    return label.partition(FEATURES)[0] or label


def reader_of(tree: Constituent) -> Callable[[Word], Word | None]:
    """Return what gives a leaf of this tree as a word with its tag, None for a trace and what is no
    text. It raises ValueError for a trace without -NONE-.

    Raises ValueError if numbers stand for words, or if words are not in the order of theirs.
    """
    words = words_of(tree)
    numbers = [number for word in words if (number := NUMBERED.fullmatch(word.form))]
    is_numbered = len(numbers) == len(words) > 1
    if is_numbered and [int(number[1]) for number in numbers] != [*range(len(words))]:
        raise ValueError("expected words in the order of their numbers, got crossing branches")
    forms = [word.form for word in words]
    if len(words) > 2 and all(map(str.isdecimal, forms)):
        low, *_ = found = sorted(map(int, forms))
        if low < 2 and found == [*range(low, low + len(words))]:
            raise ValueError(f"expected words, got their numbers: {' '.join(forms):.40}")
    beside_id = tree.children if tree.label in WRAPPERS else ()
    is_historical = len(beside_id) > 1 and any(
        isinstance(node, Word) and node.tag == ID for node in beside_id
    )

    def read(word: Word) -> Word | None:
        tag, form = without_features(word.tag), word.form
        if tag in (TRACE, *NO_TEXT):
            return None
        if is_historical and (tag == ID or EMPTY.fullmatch(form)):
            return None
        if LOST_TRACE.fullmatch(form) or LOST_TRACE.fullmatch(tag):
            raise ValueError(f"expected a trace to have the tag {TRACE}, got ({tag} {form})")
        return Word(tag, form.partition("=")[2] if is_numbered else form)

    return read

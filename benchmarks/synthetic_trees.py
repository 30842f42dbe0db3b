"""Trees of invented words that are as much work to read and score as those of the WSJ.

GRAMMAR has the frequent rules of the WSJ, with weights that make its labels, tags and shapes about
as frequent as there. As in a treebank's files, a tree is written over several lines, with function
tags and traces. The number of its words is drawn first, and of the rules those are taken that come
to it: 23 words on average, some 2 and some over 80, in 46 brackets (TOP and the words' own among
them) once traces are off; 3,396 sentences of the WSJ have 24 in 44. Words are those of
synthetic_words.py, whatever their tags; punctuation is the treebank's.

`predictions` puts a parser's mistakes into linearised trees, which remain trees, and makes of some
what is none, as a model may print and `aiayn delinearize` repairs.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from synthetic_words import ENGLISH, spell

LENGTH_SHAPE, LENGTH_SCALE = 3.6, 6.4  # of the gamma distribution of lengths, in words
SHORTEST, LONGEST = 2, 120
DRAWN = 100_000  # words at a time

# What a constituent consists of: "WEIGHT RULE | WEIGHT RULE". A label is written as the rule has it
# and expanded as what is before its "-". "0" is a trace, "*NP-SBJ" a constituent with only a trace
# in it. TOP is what the S of a whole sentence consists of.
GRAMMAR = {
    "TOP": """
        60 NP-SBJ VP . | 11 PP-TMP , NP-SBJ VP . | 5 S-TPC-1 , NP-SBJ VP . |
        4 ADVP , NP-SBJ VP . | 4 SBAR-ADV , NP-SBJ VP . | 4 CC NP-SBJ VP . | 4 S , CC S . |
        3 `` S-TPC-1 , '' NP-SBJ VP . | 3 `` NP-SBJ VP . '' | 4 NP-SBJ ADVP-TMP VP . |
        1 S : S . | 1 NP .
    """,
    "S": """
        45 NP-SBJ VP | 36 *NP-SBJ VP | 3 NP-SBJ ADVP VP | 2 ADVP-TMP NP-SBJ VP | 2 S CC S |
        2 PP , NP-SBJ VP | 1 NP-SBJ ADJP-PRD | 1 *NP-SBJ-1 ADJP-PRD
    """,
    "NP": """
        50 NP PP | 25 NP PP-LOC | 110 DT NN | 40 PRP | 30 NNS | 25 NN | 25 NNP | 50 NNP NNP |
        60 DT JJ NN | 36 JJ NNS | 22 DT NNS | 20 NP SBAR | 22 JJ NN | 20 NN NNS | 30 DT NN NN |
        12 NP CC NP | 6 NP , NP | 14 QP *NP | 6 CD | 20 NNP NNP NNP | 14 CD NNS | 8 NP , NP , |
        10 NP VP | 10 PRP$ NN | 60 DT NNP NNP NN | 10 NP NN NN | 6 NNP POS NN |
        60 DT JJ NN NN | 3 NP PRN | 4 NP , SBAR , | 8 PRP$ JJ NNS | 2 DT | 5 NP PP-TMP PP |
        3 NP , NP CC NP | 60 DT NNP NNP NNP NN | 40 JJ NN CC NN NNS | 5 ADJP NN | 1 NX |
        5 QP NNS | 30 DT JJ , JJ NN NN
    """,
    "NX": "2 NN | 1 NN CC NN | 1 JJ NN",
    "VP": """
        87 TO VP | 60 VB NP | 50 MD VP | 38 VBN *NP PP-CLR | 32 VBD SBAR | 32 VBD NP |
        31 VBZ VP | 30 VBZ NP-PRD | 26 VBG NP | 24 VBD VP | 24 VBP VP | 19 VBD |
        18 VB NP PP-CLR | 17 VB VP | 16 VBZ | 16 VP CC VP | 15 VBP NP | 14 VBN *NP |
        13 VB PP-CLR | 12 VBN *NP S-CLR | 12 VBZ SBAR | 10 VBD S | 12 VB | 8 VBN |
        12 VBZ ADJP-PRD | 8 VBD PP-LOC PP-TMP | 10 VBZ S | 6 VBG | 8 VBZ RB VP | 6 VBD PRT NP |
        6 VBN *NP PP-LOC PP-TMP | 5 VBD NP , SBAR-ADV | 6 VBD ADVP-MNR | 6 VB NP NP-TMP |
        6 VBD NP ADVP-TMP | 6 VBG PP-LOC | 4 VBD 0 SBAR | 12 VBN NP | 6 VBP SBAR |
        3 VBD NP-EXT PP-DIR PP-DIR
    """,
    "PP": "82 IN NP | 9 TO NP | 3 IN S-NOM | 1 ADVP IN NP",
    "SBAR": "36 IN S | 29 0 S | 24 WHNP-1 S | 6 WHADVP-1 S | 4 *WHNP-1 S",
    "ADVP": "75 RB | 4 RB RB | 2 RBR | 2 CD NNS RB | 1 IN JJS",
    "ADJP": """
        22 JJ | 11 JJ PP | 10 RB JJ | 5 0 JJ S | 4 QP *NP | 4 CD NN | 4 RB VBN | 3 JJ CC JJ |
        2 RBR JJ | 2 JJ SBAR
    """,
    "QP": "42 $ CD CD 0 | 14 CD CD | 6 IN CD | 5 JJR IN CD | 4 RB CD | 2 RB $ CD CD",
    "PRN": "20 -LRB- NP -RRB- | 14 , S , | 12 , PP , | 5 : NP :",
    "WHNP": "58 WDT | 35 WP | 1 WP$",
    "WHADVP": "1 WRB",
    "PRT": "1 RP",
}
RULES = {
    label: [(rule.split()[1:], int(rule.split()[0])) for rule in text.split("|")]
    for label, text in GRAMMAR.items()
}
CLAUSES = ("S", "VP", "SBAR")
PHRASE = 3.6  # words beyond the least in any other constituent, on average
TRACE = "*0"  # with which parts begin that are one
FORMS = {  # of words that are always written alike
    **{tag: (tag,) for tag in (",", "``", "''", "$", "-LRB-", "-RRB-")},
    ".": (*["."] * 18, "?", "!"),
    ":": ("--", ":", ";", "..."),
    "POS": ("'s", "'s", "'s", "'"),
}
TRACE_FORMS = ("*", "*-1", "*T*-1", "*T*-2", "*U*", "0")
# What a parser gets wrong, of 1,000: the names of words and constituents, constituents that it
# leaves out, and neighbours that it parts one word too late
MISNAMED, LEFT_OUT, PARTED = 25, 30, 60
MISTAKEN_FOR = (
    {"NN": "NNP", "NNP": "NN", "NNS": "NNPS", "JJ": "NN", "CD": "NN", "VBG": "NN", "TO": "IN"}
    | {"VBD": "VBN", "VBN": "VBD", "VB": "VBP", "VBP": "VB", "IN": "RB", "RB": "IN"}
    | {"NP": "NX", "ADJP": "NP", "VP": "S", "S": "VP", "SBAR": "S", "PP": "ADVP", "ADVP": "PP"}
)

Sizes = dict[str, tuple[int, int]]  # the fewest and the most words in constituents of a label


class Part(NamedTuple):
    """What stands at one place of a rule."""

    name: str  # as it is written
    label: str  # under which RULES has it; "" for a word or a trace
    trace: bool
    after: tuple[int, int]  # the fewest and the most words of all that follows it in the rule


def _label(name: str) -> str:
    return name.partition("-")[0]


def _span(names: list[str], sizes: Sizes) -> tuple[int, int]:
    """Return the fewest and the most words of these parts of a rule."""
    spans = [sizes.get(_label(name), (1, 1)) for name in names if name[0] not in TRACE]
    return sum(fewest for fewest, _ in spans), min(LONGEST, sum(most for _, most in spans))


def _sizes() -> Sizes:
    sizes: Sizes = {}
    wider: Sizes = dict.fromkeys(RULES, (LONGEST, 0))
    while wider != sizes:
        sizes = wider
        wider = {}
        for label, rules in RULES.items():
            fewest, most = zip(*(_span(names, sizes) for names, _ in rules), strict=True)
            wider[label] = min(fewest), max(most)
    return sizes


SIZES = _sizes()


@cache
def rules_for(label: str, length: int) -> tuple[list[tuple[Part, ...]], list[int]]:
    """Return the rules by which a constituent can have so many words, and cumulative weights."""
    spans = [_span(names, SIZES) for names, _ in RULES[label]]
    found = [
        (_parts(names), weight)
        for (names, weight), (fewest, most) in zip(RULES[label], spans, strict=True)
        if fewest <= length <= most
    ]
    return [parts for parts, _ in found], list(accumulate(weight for _, weight in found))


def _parts(names: list[str]) -> tuple[Part, ...]:
    return tuple(
        Part(
            name=name.lstrip(TRACE),
            label=_label(name) if _label(name) in RULES else "",
            trace=name[0] in TRACE,
            after=_span(names[place:], SIZES),
        )
        for place, name in enumerate(names, start=1)
    )


def trees(seed: int, count: int) -> Iterator[str]:
    """Yield trees as a treebank's file has them; fewer of a seed are the start of more."""
    rng = random.Random(seed)
    words = _words(np.random.default_rng(seed))
    for _ in range(count):
        length = round(rng.gammavariate(LENGTH_SHAPE, LENGTH_SCALE))
        written = ["( (S"]
        _expand("TOP", min(max(length, SHORTEST), LONGEST), "\n    ", written, rng, words)
        yield "".join([*written, " ))\n"])


def _words(rng: np.random.Generator) -> Iterator[str]:
    while True:
        for rank in ENGLISH.draw(rng, DRAWN).tolist():
            yield spell(ENGLISH, rank)


def _expand(
    label: str, length: int, margin: str, out: list[str], rng: random.Random, words: Iterator[str]
) -> None:
    """Write what is in a constituent of `length` words."""
    rules, weights = rules_for(label, length)
    for name, inner, trace, (fewest, most) in rng.choices(rules, cum_weights=weights)[0]:
        if trace:
            empty = f"(-NONE- {rng.choice(TRACE_FORMS)})"
            out.append(f" ({name} {empty} )" if name else f" {empty}")
        elif not inner:
            out.append(f" ({name} {_form(name, rng, words)})")
            length -= 1
        else:
            low = max(SIZES[inner][0], length - most)
            high = min(SIZES[inner][1], length - fewest)
            size = low + _beyond_least(inner, high - low, rng)
            out.append(f"{margin}({name}")
            _expand(inner, size, f"{margin}  ", out, rng, words)
            out.append(" )")
            length -= size


def _beyond_least(label: str, room: int, rng: random.Random) -> int:
    """Draw how much longer than it must be a constituent is; the last has what is left."""
    if label in CLAUSES:
        return int((room + 1) * rng.random())
    return min(room, int(rng.gammavariate(2, PHRASE / 2)))


def _form(tag: str, rng: random.Random, words: Iterator[str]) -> str:
    if tag in FORMS:
        return rng.choice(FORMS[tag])
    if tag == "CD":
        number = int(2000 ** rng.random())
        return f"{number}\\/2" if number % 40 == 1 else str(number)
    return next(words)


def predictions(lines: Iterable[str], seed: int, damaged: float) -> Iterator[str]:
    """Yield linearised trees as a model could predict them, `damaged` of 100 of them no trees."""
    rng = random.Random(seed)
    for line in lines:
        symbols = predict(line.split(), rng)
        if 100 * rng.random() < damaged:
            symbols = damage(symbols, rng)
        yield f"{' '.join(symbols)}\n"


def predict(symbols: list[str], rng: random.Random) -> list[str]:
    """Return a linearised tree with a parser's mistakes: another tree over as many words."""
    found = list(symbols)
    opened: list[int] = []
    for place, symbol in enumerate(symbols):
        if symbol[0] == "(":
            opened.append(place)
            continue
        begin = opened.pop() if symbol[0] == ")" else place
        chance = rng.randrange(1000)
        name = symbol.lstrip(")")
        if chance < MISNAMED and name in MISTAKEN_FOR:
            for bracket in {begin, place}:
                found[bracket] = found[bracket].replace(name, MISTAKEN_FOR[name])
        elif begin < place and chance >= 1000 - LEFT_OUT:
            found[begin] = found[place] = ""
    return _parted([symbol for symbol in found if symbol], rng)


def _parted(symbols: list[str], rng: random.Random) -> list[str]:
    """Move the first word of some constituents into the one before, as long as another is left."""
    found = list(symbols)
    for place in range(len(found) - 3):
        end, begin, word, more = found[place : place + 4]
        movable = end[0] == ")" and begin[0] == "(" and word[0] not in "()" and more[0] != ")"
        if movable and rng.randrange(1000) < PARTED:
            found[place : place + 3] = word, end, begin
    return found


def damage(symbols: list[str], rng: random.Random) -> list[str]:
    """Return no tree: a symbol is lost, twice, unknown or too many, or the end is cut off."""
    place = rng.randrange(len(symbols))
    before, symbol, after = symbols[:place], symbols[place], symbols[place + 1 :]
    return rng.choice(
        [
            [*before, *after],
            [*before, symbol, symbol, *after],
            [*before, "<unk>", *after],
            [*before, ")NP", symbol, *after],
            before,
        ]
    )

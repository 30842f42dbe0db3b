"""Sentence pairs that are as much work to prepare as WMT14's, in two invented languages.

English and German sentences have 23 and 22 words on average, some one and some over 80. They become
26 and 25 tokens, as WMT14's have (116M and 110M for 4.5M pairs). Numbers and punctuation stand at
the same places of both sides; words and their frequencies are those of synthetic_words.py. `spoil`
makes one pair of a hundred such that cleaning drops it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, count, islice

import numpy as np
from synthetic_words import ENGLISH, GERMAN, Language, mixed, spell

CHUNK_PAIRS = 5_000
LENGTH_SHAPE, LENGTH_SCALE = 2.5, 9.1  # of the gamma distribution of sentence lengths, in words
LONGEST = 200
EXPANSION = 0.12  # standard deviation of the ratio of lengths, whose mean is 0.95
DROPPED_EVERY = 100  # pairs
NOT_UTF8_EVERY = 5_000
TOO_LONG = 300  # words

Pair = tuple[bytes, bytes]


# --- what stands in the place of a word or beside it: functions of language, word and 30 bits ---


def _comma(language: Language, word: str, bits: int) -> str:
    return f"{word},"


def _number(language: Language, word: str, bits: int) -> str:
    """A year, a small, a large or a decimal number."""
    kind, value = bits % 8, bits // 8
    if kind < 2:
        return str(1940 + value % 80)
    if kind < 5:
        return str(1 + value % 31)
    if kind < 7:
        return f"{value % 90 + 1}{',.'[language is ENGLISH]}{value // 90 % 100}"
    return f"{value % 999 + 1}{'.,'[language is ENGLISH]}{value // 999 % 1000:03d}"


def _hyphen(language: Language, word: str, bits: int) -> str:
    return f"{word}-{spell(language, 200 + bits % 20_000)}"


def _quotation(language: Language, word: str, bits: int) -> str:
    if bits % 4 == 0:
        return f'"{word}"'
    return f"“{word}”" if language is ENGLISH else f"„{word}“"


def _abbreviation(language: Language, word: str, bits: int) -> str:
    english = ("Mr.", "e.g.", "No.", "U.S.", "Dr.", "etc.")
    german = ("Dr.", "z.B.", "Nr.", "d.h.", "Abs.", "usw.")
    return (english if language is ENGLISH else german)[bits % 6]


def _brackets(language: Language, word: str, bits: int) -> str:
    return f"({word})"


def _apostrophe(language: Language, word: str, bits: int) -> str:
    return f"{word}'s" if language is ENGLISH else f"{word};"


def _url(language: Language, word: str, bits: int) -> str:
    names = [spell(ENGLISH, 200 + part).lower() for part in (bits % 10**6, bits // 7 % 10**4)]
    return f"http://www.{names[0]}.com/{names[1]}"


# Of a word's form, and how many of a thousand words have it; the others are plain.
FORMS: tuple[tuple[int, Callable[[Language, str, int], str]], ...] = (
    *((60, _comma), (20, _number), (10, _hyphen), (8, _quotation), (6, _abbreviation)),
    *((6, _brackets), (6, _apostrophe), (1, _url)),
)
ENDS = (".",) * 17 + ("?", "!", "")


# --- pairs ---


def sentence_pairs(seed: int, pairs: int) -> Iterator[Pair]:
    """Yield `pairs` pairs of lines, the same for a seed; fewer are the start of more."""
    chunks = (_chunk(np.random.default_rng((seed, number))) for number in count())
    return islice(chain.from_iterable(chunks), pairs)


def spoil(pairs: Iterable[Pair]) -> Iterator[Pair]:
    """Make one pair in DROPPED_EVERY such that cleaning drops it: for each of its four reasons."""
    for number, (source, target) in enumerate(pairs):
        if number % NOT_UTF8_EVERY == 1:  # first, and rare: cleaning ends where there are many
            yield source, b"\xfcber " + target
        elif number % DROPPED_EVERY == 1:
            yield _dropped(mixed(number) % 10, source, target)
        else:
            yield source, target


def _dropped(kind: int, source: bytes, target: bytes) -> Pair:
    if kind < 3:
        return source, b""
    if kind < 8:
        return source, b" ".join([target] * 3)
    source, target = (b" ".join([s] * (TOO_LONG // len(s.split()) + 1)) for s in (source, target))
    return source, target


def _chunk(rng: np.random.Generator) -> Iterator[Pair]:
    gamma = rng.gamma(LENGTH_SHAPE, LENGTH_SCALE, CHUNK_PAIRS)
    lengths = np.clip(np.rint(gamma), 1, LONGEST).astype(int)
    ratio = np.clip(rng.normal(0.95, EXPANSION, CHUNK_PAIRS), 0.75, 1.25)
    others = np.where(lengths < 8, lengths, np.rint(lengths * ratio)).astype(int)
    thresholds = np.cumsum([share for share, _ in FORMS])
    forms = np.searchsorted(thresholds, rng.integers(0, 1000, lengths.sum()), side="right")
    bits = rng.integers(0, 2**30, lengths.sum())
    source = _sentences(ENGLISH, rng, lengths, forms, bits)
    places, common = _same_places(lengths, others)
    forms = np.where(common, forms[places], len(FORMS))
    return zip(source, _sentences(GERMAN, rng, others, forms, bits[places]))


def _same_places(lengths: np.ndarray, others: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each word of the other side: the word of its place, and whether there is one."""
    starts, other_starts = (np.cumsum(n) - n for n in (lengths, others))
    within = np.arange(others.sum()) - np.repeat(other_starts, others)
    common = within < np.repeat(lengths, others)
    return np.repeat(starts, others) + np.where(common, within, 0), common


def _sentences(
    language: Language,
    rng: np.random.Generator,
    lengths: np.ndarray,
    forms: np.ndarray,
    bits: np.ndarray,
) -> list[bytes]:
    words = [spell(language, rank) for rank in language.draw(rng, len(forms)).tolist()]
    for place in np.flatnonzero(forms < len(FORMS)).tolist():
        form = FORMS[forms[place]][1]
        words[place] = form(language, words[place], int(bits[place]))
    ends = np.cumsum(lengths).tolist()
    return [
        _sentence(words[start:end], ENDS[end % len(ENDS)]) for start, end in zip([0, *ends], ends)
    ]


def _sentence(words: list[str], end: str) -> bytes:
    text = " ".join(words)
    return (text[0].upper() + text[1:].rstrip(",;") + end).encode()

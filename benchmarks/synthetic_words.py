"""Words of two invented languages, as many and as frequent as those of English and German text.

The word of rank r has a frequency in proportion to 1 / (r + 2.7) up to rank 7,873 (Zipf and
Mandelbrot), and to (r + 2.7) ** -tail beyond: the double power law that Gerlach and Altmann (2013)
measured on English books, from whom the bend at 7,873 comes. The number of different words then
grows as Heaps' law has it, with an exponent that falls to 1 / tail. `tail` is chosen for WMT14's
numbers of types: 1.8 for English, 1.54 for German, so 4.5M pairs have about 0.9M and 2.1M.

The more frequent a word, the shorter it is. It is one stem of syllables, or in German often two,
with an ending that it shares with many others.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

SHIFT = 2.7  # Mandelbrot's
BEND = 7_873  # rank from which frequencies fall faster
LAST_RANK = 10**12
FUNCTION_WORDS = 150  # ranks of one syllable without an ending
RANKS_PER_STEM = 2
CACHED_WORDS = 200_000
MASK = 2**64 - 1


@dataclass(
    frozen=True, eq=False
)  # two are the same only if they are one: a hash that costs nothing
class Language:
    """How the words of a language are built, and how fast their frequencies fall."""

    code: str
    tail: float
    onsets: tuple[str, ...]
    rimes: tuple[str, ...]
    endings: tuple[str, ...]  # repeated as often as they are frequent
    compounds: float  # share of the words beyond FUNCTION_WORDS
    links: tuple[str, ...]  # between the parts of a compound
    capitals: float  # share of the words that are always written with a capital

    @cached_property
    def syllables(self) -> tuple[str, ...]:
        """All syllables, in an order in which neighbours are not alike."""
        together = [onset + rime for rime in self.rimes for onset in self.onsets]
        return tuple(
            sorted(together, key=lambda syllable: mixed(int.from_bytes(syllable.encode())))
        )

    @cached_property
    def frequencies(self) -> tuple[np.ndarray, float]:
        """The cumulative share of the ranks up to BEND, and the share of the LAST_RANK ranks."""
        head = np.cumsum(1 / (np.arange(1, BEND + 1) + SHIFT))
        edge, last = BEND + 0.5 + SHIFT, LAST_RANK + SHIFT
        power = 1 - self.tail
        tail = (1 - (last / edge) ** power) / -power  # the integral of (r / edge) ** -tail / edge
        return head / (head[-1] + tail), float(head[-1] / (head[-1] + tail))

    def draw(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Draw the ranks of `count` words of running text."""
        cumulative, head = self.frequencies
        share = rng.random(count)
        ranks = np.searchsorted(cumulative, share, side="right") + 1
        rare = share >= head
        edge, last = BEND + 0.5 + SHIFT, LAST_RANK + SHIFT
        power = 1 - self.tail
        rest = (share[rare] - head) / (1 - head)
        beyond = edge * (1 - rest * (1 - (last / edge) ** power)) ** (1 / power)
        ranks[rare] = np.clip((beyond - SHIFT + 0.5).astype(np.int64), BEND + 1, LAST_RANK)
        return ranks


ENGLISH = Language(
    code="en",
    tail=1.8,
    onsets=(
        *("", "b", "c", "d", "f", "g", "h", "j", "k", "l", "m", "n", "p", "r", "s", "t", "v", "w"),
        *("br", "ch", "cl", "cr", "pl", "pr", "qu", "sh", "st", "str", "th", "tr"),
    ),
    rimes=(
        *("a", "e", "i", "o", "u", "y", "al", "an", "ar", "at", "ay", "ea", "ed", "el", "en"),
        *("er", "es", "et", "ic", "ight", "il", "in", "ing", "ion", "is", "it", "oa", "ol", "on"),
        *("or", "ou", "ow", "ub", "ul", "um", "un", "ur", "us"),
    ),
    endings=(
        *([""] * 8 + ["s"] * 5 + ["ed"] * 3 + ["ing"] * 3 + ["er", "ly", "al", "y"] * 2),
        *("est", "ness", "less", "able", "ment", "ity", "ise", "ism", "ful", "ous", "ation"),
    ),
    compounds=0.04,
    links=("",),
    capitals=0.25,
)

GERMAN = Language(
    code="de",
    tail=1.54,
    onsets=(
        *("", "b", "d", "f", "g", "h", "j", "k", "l", "m", "n", "p", "r", "s", "t", "v", "w", "z"),
        *("br", "fl", "fr", "gr", "kr", "pf", "sch", "schl", "sp", "st", "str", "tr"),
    ),
    rimes=(
        *("a", "e", "i", "o", "u", "ä", "ö", "ü", "ab", "al", "an", "ar", "au", "äu", "eh", "ei"),
        *("el", "en", "er", "es", "et", "eu", "ich", "ie", "ig", "in", "is", "it", "ol", "on"),
        *("or", "uß", "um", "un", "ung", "ur", "ück", "ach"),
    ),
    endings=(
        *([""] * 6 + ["en"] * 5 + ["e"] * 4 + ["er"] * 3 + ["es", "s", "n", "t", "te"] * 2),
        *("em", "ung", "ungen", "lich", "liche", "lichen", "keit", "heit", "isch", "ischen", "st"),
    ),
    compounds=0.4,
    links=("", "s", "", "en"),
    capitals=0.5,
)


def mixed(number: int) -> int:
    """Return 64 bits that look random but are always the same for a number."""
    bits = (number + 1) * 0x9E3779B97F4A7C15 & MASK
    bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9 & MASK
    bits = (bits ^ bits >> 27) * 0x94D049BB133111EB & MASK
    return bits ^ bits >> 31


@lru_cache(CACHED_WORDS)
def spell(language: Language, rank: int) -> str:
    """Return the word of a rank; the same word may, rarely, have two ranks."""
    if rank <= FUNCTION_WORDS:
        return stem(language, rank)
    bits = mixed(rank)
    kind, case, ending = bits % 1000, bits // 1000 % 1000, bits // 10**6 % len(language.endings)
    bits >>= 30
    if kind < 1000 * language.compounds:
        parts = int(4 * rank**0.6)
        link = language.links[bits % len(language.links)]
        second = mixed(bits) % parts
        word = stem(language, bits % parts) + link + stem(language, second)
    else:
        word = stem(language, FUNCTION_WORDS + bits % (rank // RANKS_PER_STEM + 1))
    word += language.endings[ending]
    return word.capitalize() if case < 1000 * language.capitals else word


def stem(language: Language, number: int) -> str:
    """Write a number in syllables: all stems of one syllable, then all of two, and so on."""
    base = len(language.syllables)
    digits = 1
    while number >= base**digits:
        number -= base**digits
        digits += 1
    written = ""
    for _ in range(digits):
        number, syllable = divmod(number, base)
        written += language.syllables[syllable]
    return written

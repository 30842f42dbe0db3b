"""A small language to translate: the names of numbers, from English into simplified German.

    seventy two thousand forty one        zwei und siebzig tausend ein und vierzig

German says the units before the tens, so a translation is more than a list of word pairs. Here its
words stand apart, and one is always "ein".
"""

from __future__ import annotations

import random

LARGEST = 999_999
UNITS = (
    ("one", "ein"),
    ("two", "zwei"),
    ("three", "drei"),
    ("four", "vier"),
    ("five", "fünf"),
    ("six", "sechs"),
    ("seven", "sieben"),
    ("eight", "acht"),
    ("nine", "neun"),
    ("ten", "zehn"),
    ("eleven", "elf"),
    ("twelve", "zwölf"),
    ("thirteen", "dreizehn"),
    ("fourteen", "vierzehn"),
    ("fifteen", "fünfzehn"),
    ("sixteen", "sechzehn"),
    ("seventeen", "siebzehn"),
    ("eighteen", "achtzehn"),
    ("nineteen", "neunzehn"),
)
TENS = (
    ("twenty", "zwanzig"),
    ("thirty", "dreißig"),
    ("forty", "vierzig"),
    ("fifty", "fünfzig"),
    ("sixty", "sechzig"),
    ("seventy", "siebzig"),
    ("eighty", "achtzig"),
    ("ninety", "neunzig"),
)
PADDING, END = 0, 1
SYMBOLS = ("<pad>", "</s>")
WORDS = tuple(dict.fromkeys(word for pair in UNITS + TENS for word in pair))
VOCABULARY = (*SYMBOLS, *WORDS, "hundred", "thousand", "hundert", "tausend", "und")
INDEX = {word: index for index, word in enumerate(VOCABULARY)}

Pair = tuple[list[str], list[str]]


def names_of(number: int) -> Pair:
    """Return the words of a number from 1 to LARGEST, in English and in German."""
    thousands, rest = divmod(number, 1000)
    hundreds, rest = divmod(rest, 100)
    english, german = [], []
    if thousands:
        above = names_of(thousands)
        english += [*above[0], "thousand"]
        german += [*above[1], "tausend"]
    if hundreds:
        english += [UNITS[hundreds - 1][0], "hundred"]
        german += [UNITS[hundreds - 1][1], "hundert"]
    if rest:
        below = below_hundred(rest)
        english += below[0]
        german += below[1]
    return english, german


def below_hundred(number: int) -> Pair:
    """Return the words of a number from 1 to 99."""
    if number < 20:
        return [UNITS[number - 1][0]], [UNITS[number - 1][1]]
    tens, units = divmod(number, 10)
    ten = TENS[tens - 2]
    if not units:
        return [ten[0]], [ten[1]]
    unit = UNITS[units - 1]
    return [ten[0], unit[0]], [unit[1], "und", ten[1]]


def draw_pairs(count: int, seed: int) -> list[Pair]:
    """Draw the names of `count` different numbers."""
    numbers = random.Random(seed).sample(range(1, LARGEST + 1), count)
    return [names_of(number) for number in numbers]

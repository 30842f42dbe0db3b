"""The rules that choose the demo's pairs, and the splitting of paragraphs into sentences.

The rules drop text that is not a sentence or not a translation: text that is empty, equal on both
sides, markup-like or mostly not letters, shorter than 3 or longer than 40 words on either side, or
more than twice as long on one side as on the other. Each pair is kept once, as pages share
passages.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

MIN_WORDS, MAX_WORDS = 3, 40
MAX_LENGTH_RATIO = 2.0
MIN_LETTER_SHARE = 0.5
MARKUP = re.compile(r"[{}\\_]|://")

# A sentence ends at . ! or ? before white space and a capital, unless the full stop belongs to an
# abbreviation or to an ordinal ("am 3. Mai").
SENTENCE_END = re.compile(r"(?<=[.!?])[\"”“»)]?\s+(?=[\"„“»(]?[A-ZÄÖÜÀÂÉÈÊÎÔÛÇ])")
ABBREVIATION = re.compile(
    r"(?:^|[\s(])(?:\w|\d+|e\.g|i\.e|etc|vs|cf|No|resp|bzw|usw|ca|evtl|ggf|inkl|max|min|Nr|Abb|sog"
    r"|z\.\s?B|d\.\s?h|u\.\s?a|p\.\s?ex|c\.-à-d)\.$"
)


def sentences(paragraph: str) -> list[str]:
    """Split a paragraph into sentences and normalize its white space."""
    text = " ".join(paragraph.split())
    pieces, start = [], 0
    for end in SENTENCE_END.finditer(text):
        piece = text[start : end.end()].strip()
        if not ABBREVIATION.search(piece):
            pieces.append(piece)
            start = end.end()
    pieces.append(text[start:])
    return [piece for piece in pieces if piece]


def sentence_pairs(source: str, target: str) -> list[tuple[str, str]]:
    """Pair two paragraphs sentence by sentence if their numbers agree, otherwise as a whole."""
    source_sentences, target_sentences = sentences(source), sentences(target)
    if len(source_sentences) == len(target_sentences):
        return list(zip(source_sentences, target_sentences))
    return [(" ".join(source_sentences), " ".join(target_sentences))]


def reason_to_drop(source: str, target: str) -> str | None:
    """Name the first rule that a pair breaks, or None if it is kept."""
    lengths = [len(source.split()), len(target.split())]
    if not all(lengths):
        return "empty"
    if source == target:
        return "identical"
    if MARKUP.search(source) or MARKUP.search(target):
        return "markup"
    if min(letter_share(source), letter_share(target)) < MIN_LETTER_SHARE:
        return "mostly no letters"
    if min(lengths) < MIN_WORDS or max(lengths) > MAX_WORDS:
        return f"not {MIN_WORDS} to {MAX_WORDS} words"
    if max(lengths) > MAX_LENGTH_RATIO * min(lengths):
        return "length ratio"
    return None


def letter_share(text: str) -> float:
    """Return the share of letters among all characters but white space."""
    characters = "".join(text.split())
    return sum(map(str.isalpha, characters)) / max(1, len(characters))


def write_pairs(
    documents: Iterable[tuple[str, list[tuple[str, str]]]], languages: tuple[str, str], output: Path
) -> Counter[str]:
    """Write the kept pairs as text.SRC, text.TGT and text.documents in `output`.

    `documents` yields each document's name with its pairs of paragraphs. The three files are
    parallel; text.documents names each line's document, so that whole documents can be held out.
    Returns the numbers of pairs kept and dropped, by rule.
    """
    output.mkdir(parents=True, exist_ok=True)
    counts: Counter[str] = Counter()
    seen: set[tuple[str, str]] = set()
    paths = [output / f"text.{suffix}" for suffix in (*languages, "documents")]
    files = [path.open("w", encoding="utf-8") for path in paths]
    for name, paragraphs in documents:
        for source, target in kept_pairs(paragraphs, seen, counts):
            for file, line in zip(files, (source, target, name)):
                file.write(line + "\n")
    for file in files:
        file.close()
    return counts


def kept_pairs(
    paragraphs: list[tuple[str, str]], seen: set[tuple[str, str]], counts: Counter[str]
) -> Iterator[tuple[str, str]]:
    """Yield a document's sentence pairs that no rule drops; update `seen` and `counts`."""
    for paragraph in paragraphs:
        for pair in sentence_pairs(*paragraph):
            reason = reason_to_drop(*pair) or ("repeated" if pair in seen else None)
            counts[reason or "kept"] += 1
            if reason is None:
                seen.add(pair)
                yield pair


def summary(counts: Counter[str]) -> str:
    """Return one line with the numbers of pairs kept and dropped, by rule."""
    dropped = ", ".join(f"{reason} {n:,}" for reason, n in counts.most_common() if reason != "kept")
    return f"{counts['kept']:,} pairs kept; dropped: {dropped or 'none'}"

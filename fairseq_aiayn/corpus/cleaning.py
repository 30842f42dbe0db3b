"""Turn the training texts of a manifest into clean tokens: OUTPUT/train.SRC and train.TGT.

Each text is read directly from its archive. Its pairs are tokenized, and unusable ones dropped, as
Moses' clean-corpus-n.perl does.

    python -m fairseq_aiayn.corpus.cleaning --manifest corpus.toml --directory downloads \\
        --source-lang en --target-lang de --output tokens --workers 2 \\
        --tokenizer moses --normalize --max-length 250 --max-ratio 1.5
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import TextIO
from unicodedata import category

from tqdm import tqdm

from fairseq_aiayn.console import aligned_lines, script
from fairseq_aiayn.corpus.manifest import Text, add_manifest_options, read_manifest
from fairseq_aiayn.corpus.moses import moses_tokenizer
from fairseq_aiayn.corpus.texts import LinePair, read_pairs
from fairseq_aiayn.corpus.workers import in_order
from fairseq_aiayn.files import whole_file

PairCounts = Counter[str]  # pairs by COLUMNS

TOKENIZERS = ("moses", "none")
REASONS = ("empty", "too long", "ratio", "not UTF-8")
COLUMNS = ("read", "kept", *REASONS)
LONGEST_WORD = 1000  # characters, as in clean-corpus-n.perl
MOST_NOT_UTF8 = 0.01  # of a text's pairs; with more, the text must have another encoding
CHUNK_PAIRS = 20_000  # pairs per task of a worker: a few seconds of work, a few megabytes


@dataclass(frozen=True)
class Cleaning:
    """How text is tokenized and which pairs are kept."""

    languages: tuple[str, str]
    tokenizer: str  # one of TOKENIZERS; "none" only reduces white space to single spaces
    normalize: bool  # only for "moses"; see moses_tokenizer
    max_length: int  # units per side
    max_ratio: float | None  # longer side / shorter side, where the target is divided by `expected`
    lowercase: bool = False  # only for "moses"; see moses_tokenizer
    characters: bool = False  # units are characters, where words are not separated; or else tokens
    expected: float = 1.0  # units of a target for each of its source


def clean_corpus(
    texts: Sequence[Text], directory: Path, settings: Cleaning, output: Path, workers: int
) -> dict[str, PairCounts]:
    """Write the clean pairs of all texts and return the counts of each text by its name; raises
    ValueError for a broken text, or if no pair is kept."""
    output.mkdir(parents=True, exist_ok=True)
    counts = {}
    source, target = (output / f"train.{language}" for language in settings.languages)
    with whole_file(source) as first, whole_file(target) as second:
        for text in texts:
            pairs = read_pairs(directory, text, settings.languages)
            counts[text.name] = _clean_text(text, pairs, settings, (first, second), workers)
        if not any(of_text["kept"] for of_text in counts.values()):
            raise ValueError(f"expected pairs to keep, got none: {counts}")
    return counts


def _clean_text(
    text: Text, pairs: Iterator[LinePair], settings: Cleaning, files: Sequence[TextIO], workers: int
) -> PairCounts:
    """Write the clean pairs of one text, one side into each of the files."""
    total = Counter[str]()
    chunks = iter(lambda: list(islice(pairs, CHUNK_PAIRS)), [])
    with tqdm(desc=text.name, total=text.sentences, unit=" pairs", unit_scale=True) as bar:
        for kept, counts in in_order(partial(clean, settings=settings), chunks, workers):
            for file, lines in zip(files, zip(*kept, strict=True), strict=False):
                file.writelines(f"{line}\n" for line in lines)
            total.update(counts)
            bar.update(counts["read"])
    if total["not UTF-8"] > MOST_NOT_UTF8 * total["read"]:
        raise ValueError(
            f"{text.name}: expected UTF-8, got {total['not UTF-8']:,} of {total['read']:,} pairs "
            "that are not"
        )
    return total


def clean(
    pairs: Sequence[LinePair], settings: Cleaning
) -> tuple[list[tuple[str, str]], PairCounts]:
    """Return the kept pairs, as tokens separated by spaces, and the counts by COLUMNS."""
    tokenizers = [_tokenizer(settings, language) for language in settings.languages]
    counts = Counter(read=len(pairs))
    kept = []
    for pair in pairs:
        try:
            lines = [side.decode("utf-8-sig").rstrip("\r\n") for side in pair]
        except UnicodeDecodeError:
            counts["not UTF-8"] += 1
            continue
        source, target = (
            tokenize(line).split() for tokenize, line in zip(tokenizers, lines, strict=True)
        )
        reason = reason_to_drop(source, target, settings)
        counts[reason or "kept"] += 1
        if reason is None:
            kept.append((" ".join(source), " ".join(target)))
    return kept, counts


def reason_to_drop(source: Sequence[str], target: Sequence[str], settings: Cleaning) -> str | None:
    """Return why a pair is dropped, or None if it is kept."""
    sides = ["".join(side) if settings.characters else side for side in (source, target)]
    lengths = [*map(len, sides)]
    if not all(lengths):
        return "empty"
    if max(lengths) > settings.max_length or max(map(len, (*source, *target))) > LONGEST_WORD:
        return "too long"
    shorter, longer = sorted((lengths[0], lengths[1] / settings.expected))
    if settings.max_ratio is not None and longer / shorter > settings.max_ratio:
        return "ratio"
    return None


@cache
def _tokenizer(settings: Cleaning, language: str) -> Callable[[str], str]:
    if settings.tokenizer == "none":
        return visible
    return moses_tokenizer(language, settings.normalize, settings.lowercase)


def visible(line: str) -> str:
    """Return a line without words of control and format characters alone: sentencepiece makes no
    piece of them."""
    if "".join(line.split()).isprintable():
        return line
    return " ".join(word for word in line.split() if any(category(c)[0] != "C" for c in word))


def table(counts: dict[str, PairCounts]) -> str:
    """Return the counts of each text and their sums as aligned lines."""
    rows = [["pairs", *COLUMNS]]
    for name, of_text in {**counts, "all": sum(counts.values(), Counter())}.items():
        rows.append([name, *(f"{of_text[column]:,}" for column in COLUMNS)])
    return "\n".join(aligned_lines(rows))


def main() -> None:
    with script(__doc__) as parser:
        add_manifest_options(parser)
        parser.add_argument("--directory", type=Path, required=True, help="the manifest's files")
        parser.add_argument("--output", type=Path, required=True)
        parser.add_argument("--workers", type=int, required=True, metavar="PROCESSES")
        parser.add_argument("--tokenizer", choices=TOKENIZERS, required=True)
        parser.add_argument("--normalize", action="store_true")
        parser.add_argument("--lowercase", action="store_true")
        parser.add_argument("--max-length", type=int, required=True, metavar="TOKENS")
        parser.add_argument("--max-ratio", type=float)
        parser.add_argument("--expected", type=float, default=1.0, help="target length / source's")
        parser.add_argument("--characters", action="store_true", help="lengths are in characters")
        given = parser.parse_args()
        languages = given.source_lang, given.target_lang
        asked = (getattr(given, each.name) for each in fields(Cleaning)[1:])
        settings = Cleaning(languages, *asked)
        texts = read_manifest(given.manifest).train
        counts = clean_corpus(texts, given.directory, settings, given.output, given.workers)
        print(table(counts), file=sys.stderr)


if __name__ == "__main__":
    main()

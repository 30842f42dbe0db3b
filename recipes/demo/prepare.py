"""Make the demo's training, validation and test set.

    python prepare.py --help-root unpacked/usr/share/libreoffice/help ...
    python prepare.py --corpus DIR ... --source-lang en --target-lang de --output data \
        --max-words 40 --held-out 1000

LibreOffice's help packages hold the same HTML files in each language, with the same ids for
paragraphs and headings, by which the text is aligned. Left out are pairs of which one side is of
markup, mostly not letters, shorter than 3 words or longer than --max-words, equal to the other or
more than twice as long, and repeated pairs. DIR has text of one's own: either three pairs of files,
train.*, valid.* and test.*, which stay separate, or one pair with any name; all may end in .gz.

Where there are no such sets, both are held out: whole pages of the help, or two blocks of lines at
the end. No sentence of a set that is held out here, in either language, stays in the training text;
of given sets, such sentences are counted.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from lxml import etree, html

from fairseq_aiayn.console import note, script
from fairseq_aiayn.files import read_line_pairs, write_whole

Pair = tuple[str, str]  # source and target
Splits = dict[str, list[Pair]]  # by the names in SPLITS

SPLITS = ("train", "valid", "test")
LONGEST_HELD_OUT = 250  # words; in a given test set, a longer line is not a sentence
HELD_OUT_SHARE = 0.05  # the largest share of the corpus for each held-out set
DOCUMENT_SHARE = 0.1  # a document larger than this share of a held-out set stays in training

HELP_DIRECTORY = {"en": "en-US"}  # others are called as the language
SKIPPED_CLASSES = ("code", "example", "image", "youtube")
BLOCK_IDS = ("par_", "hd_")

MIN_WORDS = 3
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


def help_blocks(root: Path, languages: Pair) -> Iterator[tuple[Pair, str]]:
    """Yield the paragraphs and headings that both languages have, with the name of their page;
    raises ValueError if no page is in both."""
    roots = [root / HELP_DIRECTORY.get(language, language) / "text" for language in languages]
    names = [{page.relative_to(side).as_posix() for page in side.rglob("*.html")} for side in roots]
    if not names[0] & names[1]:
        raise ValueError(f"{roots[0]} and {roots[1]} must have *.html files in common: none")
    for name in sorted(names[0] & names[1]):
        source, target = (blocks((side / name).read_bytes()) for side in roots)
        yield from (((source[key], target[key]), name) for key in source if key in target)


def blocks(page: bytes) -> dict[str, str]:
    """Return the visible text of every paragraph and heading of a help page, by id."""
    try:
        root = html.document_fromstring(page, parser=html.HTMLParser(encoding="utf-8"))
    except etree.ParserError:  # an empty page
        return {}
    return {
        element.get("id"): " ".join("".join(visible_text(element)).split())
        for element in root.iter(etree.Element)
        if element.get("id", "").startswith(BLOCK_IDS)
        and not any(name in element.get("class", "") for name in SKIPPED_CLASSES)
    }


def visible_text(element: html.HtmlElement) -> Iterator[str]:
    """Yield the text inside an element as the help shows it on Linux.

    For some passages, a page has one hidden variant per system or application; the variant whose id
    starts with "default" is shown.
    """
    if "hidden" in element.attrib and not element.get("id", "").startswith("default"):
        return
    if isinstance(element.tag, str):  # comments have no text to show
        yield " " if element.tag == "br" else element.text or ""
        for child in element:
            yield from visible_text(child)
            yield child.tail or ""


def sentence_pairs(source: str, target: str) -> list[Pair]:
    """Pair two paragraphs sentence by sentence if their numbers agree, otherwise as a whole."""
    sides = sentences(source), sentences(target)
    if len(sides[0]) == len(sides[1]):
        return list(zip(*sides, strict=True))
    return [(source, target)]


def sentences(paragraph: str) -> list[str]:
    """Split a paragraph into sentences."""
    found, start = [], 0
    for end in SENTENCE_END.finditer(paragraph):
        sentence = paragraph[start : end.end()].strip()
        if not ABBREVIATION.search(sentence):
            found.append(sentence)
            start = end.end()
    return [*found, paragraph[start:]]


def is_clean(source: str, target: str, max_words: int) -> bool:
    """Return whether a pair breaks none of the rules."""
    lengths = len(source.split()), len(target.split())
    return (
        source != target
        and MIN_WORDS <= min(lengths)
        and max(lengths) <= min(max_words, MAX_LENGTH_RATIO * min(lengths))
        and not any(MARKUP.search(text) for text in (source, target))
        and min(letter_share(source), letter_share(target)) >= MIN_LETTER_SHARE
    )


def letter_share(text: str) -> float:
    """Return the share of letters among all characters but white space."""
    characters = "".join(text.split())
    return sum(map(str.isalpha, characters)) / max(1, len(characters))


def clean_lines(aligned: Iterable[tuple[Pair, str]], max_words: int) -> Iterator[tuple[Pair, str]]:
    """Yield each clean pair of sentences with the name of its page, of repeated ones the first."""
    seen: set[Pair] = set()
    for block, name in aligned:
        for pair in sentence_pairs(*block):
            if pair not in seen and is_clean(*pair, max_words):
                seen.add(pair)
                yield pair, name


def find_files(corpus: Path, languages: Pair) -> dict[str, tuple[Path, Path]]:
    """Return the pair of files of each split, or of "text" if there is only one pair.

    Raises ValueError for other files than these.
    """
    found = {}
    for path in sorted(corpus.glob(f"*.{languages[0]}*")):
        stem, _, suffix = path.name.rpartition(f".{languages[0]}")
        target = path.with_name(f"{stem}.{languages[1]}{suffix}")
        if suffix in ("", ".gz") and target.is_file():
            found[stem] = path, target
    if len(found) == 1:
        return {"text": next(iter(found.values()))}
    if not set(SPLITS) <= set(found):
        names = " and ".join(f"NAME.{language}" for language in languages)
        raise ValueError(
            f"{corpus}: must be a directory with {names} (or with .gz), of one NAME or of train, "
            f"valid and test; found {', '.join(found) or 'none'}"
        )
    return {split: found[split] for split in SPLITS}


def split_by_document(documents: list[str], size: int) -> list[str]:
    """Assign each line a split, by whole documents, until each held-out set has `size` lines.

    Documents are ordered by a hash of their names. This order is the same on every machine and
    unrelated to the order of the corpus, in which neighbouring documents are alike.
    """
    lines = Counter(documents)
    order = sorted(lines, key=lambda name: hashlib.sha256(name.encode()).digest())
    waiting = (name for name in order if lines[name] <= max(1, DOCUMENT_SHARE * size))
    split_of = {}
    for split in ("test", "valid"):
        taken = 0
        while taken < size and (name := next(waiting, None)):
            split_of[name] = split
            taken += lines[name]
    return [split_of.get(name, "train") for name in documents]


def without_sentences_of(pairs: list[Pair], held_out: list[Pair]) -> list[Pair]:
    """Return the pairs that have no side in common with `held_out`."""
    sources, targets = ({pair[side] for pair in held_out} for side in (0, 1))
    return [pair for pair in pairs if pair[0] not in sources and pair[1] not in targets]


def hold_out(pairs: list[Pair], documents: list[str] | None, held_out: int) -> Splits:
    """Split one text into train, valid and test, which share no sentence.

    Raises ValueError if the text is too small or too repetitive, or is one document.
    """
    size = max(1, min(held_out, int(HELD_OUT_SHARE * len(pairs))))
    blocks = ["train"] * (len(pairs) - 2 * size) + ["valid"] * size + ["test"] * size
    assigned = split_by_document(documents, size) if documents else blocks
    splits: Splits = {name: [] for name in SPLITS}
    for pair, split in zip(pairs, assigned, strict=True):
        splits[split].append(pair)
    splits["valid"] = without_sentences_of(splits["valid"], splits["test"])
    splits["train"] = without_sentences_of(splits["train"], splits["valid"] + splits["test"])
    if not all(splits.values()):
        raise ValueError(
            "the corpus must have several documents of similar size, and not repeat its sentences: "
            "without the held-out ones, nothing is left"
        )
    return splits


def read_help(root: Path, languages: Pair, max_words: int, held_out: int) -> Splits:
    """Return the sets made of the help pages, of pairs of at most `max_words` words."""
    lines = list(clean_lines(help_blocks(root, languages), max_words))
    note(f"{len(lines):,} different pairs of at most {max_words} words in the help")
    return hold_out([pair for pair, _ in lines], [name for _, name in lines], held_out)


def read_files(corpus: Path, languages: Pair, max_words: int, held_out: int) -> Splits:
    """Return the sets of a user's own text, of pairs of at most `max_words` words."""
    splits = {}
    for name, paths in find_files(corpus, languages).items():
        pairs = list(read_line_pairs(*paths))
        most = LONGEST_HELD_OUT if name in ("valid", "test") else max_words
        lengths = range(1, most + 1)
        kept = [pair for pair in pairs if all(len(text.split()) in lengths for text in pair)]
        note(f"{name}: {len(kept):,} of {len(pairs):,} pairs have 1 to {most} words")
        if not kept:
            raise ValueError(f"{name}: must have pairs of 1 to {most} words, got none")
        splits[name] = kept
    if "text" in splits:
        return hold_out(splits["text"], None, held_out)
    for name in ("valid", "test"):
        shared = len(splits["train"]) - len(without_sentences_of(splits["train"], splits[name]))
        if shared:
            note(f"train: {shared:,} pairs have a sentence of {name}: scores may be too good")
    return splits


def main() -> None:
    with script(__doc__) as parser:
        texts = parser.add_mutually_exclusive_group(required=True)
        texts.add_argument("--help-root", type=Path)
        texts.add_argument("--corpus", type=Path)
        parser.add_argument("--source-lang", required=True)
        parser.add_argument("--target-lang", required=True)
        parser.add_argument("--output", type=Path, required=True)
        parser.add_argument("--max-words", type=int, required=True)
        parser.add_argument("--held-out", type=int, required=True, metavar="PAIRS")
        given = parser.parse_args()
        languages = given.source_lang, given.target_lang
        read, path = (read_help, given.help_root) if given.help_root else (read_files, given.corpus)
        splits = read(path, languages, given.max_words, given.held_out)
        sizes = ", ".join(f"{name} {len(pairs):,}" for name, pairs in splits.items())
        note(f"{sizes} pairs")
        given.output.mkdir(parents=True, exist_ok=True)
        for name, pairs in splits.items():
            for language, lines in zip(languages, zip(*pairs, strict=True), strict=True):
                text = "".join(" ".join(line.split()) + "\n" for line in lines)
                write_whole(given.output / f"{name}.{language}", text)


if __name__ == "__main__":
    main()

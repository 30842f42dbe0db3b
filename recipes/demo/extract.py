"""Extract parallel text from LibreOffice's help pages or Home Assistant's interface texts.

Each language's help package holds the same HTML files, with the same ids for paragraphs and
headings.
Every integration in Home Assistant's wheel has translations/LANG.json, nested objects with the same
keys in all languages. So the text is aligned by (document, id).

    python extract.py --help-root unpacked/usr/share/libreoffice/help --source-lang en \
        --target-lang de --output corpus
    python extract.py --wheel homeassistant.whl --source-lang en --target-lang de --output corpus

writes the sentence pairs as text.SRC and text.TGT, with the name of each line's document in
text.documents. Left out are pairs of which one side is empty, of markup, mostly not letters,
shorter than 3 or longer than 40 words, equal to the other or more than twice as long, and repeated
pairs.
"""

from __future__ import annotations

import json
import re
import sys
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from lxml import etree, html
from tqdm import tqdm

from fairseq_aiayn.text import script

Pair = tuple[str, str]  # source and target
Document = tuple[str, dict[str, str], dict[str, str]]  # name, source and target texts by id

HELP_DIRECTORY = {"en": "en-US"}  # others are called as the language
SKIPPED_CLASSES = ("code", "example", "image", "youtube")
BLOCK_IDS = ("par_", "hd_")

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


def help_pages(root: Path, languages: Pair) -> Iterator[Document]:
    """Yield the pages that both languages have; raises ValueError if there are none."""
    roots = [root / HELP_DIRECTORY.get(language, language) / "text" for language in languages]
    names = [{page.relative_to(side).as_posix() for page in side.rglob("*.html")} for side in roots]
    if not names[0] & names[1]:
        raise ValueError(f"{roots[0]} and {roots[1]} must have *.html files in common: none")
    for name in sorted(names[0] & names[1]):
        source, target = (blocks((side / name).read_bytes()) for side in roots)
        yield name, source, target


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
    hidden = element.get("hidden") is not None
    if hidden and not element.get("id", "").startswith("default"):
        return
    if isinstance(element.tag, str):  # comments have no text to show
        yield " " if element.tag == "br" else element.text or ""
        for child in element:
            yield from visible_text(child)
            yield child.tail or ""


def integrations(wheel: Path, languages: Pair) -> Iterator[Document]:
    """Yield the texts of each integration; raises ValueError if there are none."""
    with zipfile.ZipFile(wheel) as archive:
        members = set(archive.namelist())
        sources = sorted(n for n in members if n.endswith(f"/translations/{languages[0]}.json"))
        names = [
            (n, n.removesuffix(f"{languages[0]}.json") + f"{languages[1]}.json") for n in sources
        ]
        names = [pair for pair in names if pair[1] in members]
        if not names:
            raise ValueError(f"{wheel} must hold translations/{languages[1]}.json files: none used")
        for pair in names:
            source, target = (dict(leaves(json.loads(archive.read(name)))) for name in pair)
            yield pair[0], source, target


def leaves(tree: dict | str, path: str = "") -> Iterator[Pair]:
    """Yield (key path, text) for every string in nested objects."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from leaves(value, f"{path}/{key}")
    elif isinstance(tree, str):
        yield path, tree


def sentence_pairs(source: str, target: str) -> list[Pair]:
    """Pair two paragraphs sentence by sentence if their numbers agree, otherwise as a whole."""
    sides = sentences(source), sentences(target)
    if len(sides[0]) == len(sides[1]):
        return list(zip(*sides, strict=True))
    return [(" ".join(sides[0]), " ".join(sides[1]))]


def sentences(paragraph: str) -> list[str]:
    """Split a paragraph into sentences and normalize its white space."""
    text = " ".join(paragraph.split())
    found, start = [], 0
    for end in SENTENCE_END.finditer(text):
        sentence = text[start : end.end()].strip()
        if not ABBREVIATION.search(sentence):
            found.append(sentence)
            start = end.end()
    found.append(text[start:])
    return [sentence for sentence in found if sentence]


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
    return "length ratio" if max(lengths) > MAX_LENGTH_RATIO * min(lengths) else None


def letter_share(text: str) -> float:
    """Return the share of letters among all characters but white space."""
    characters = "".join(text.split())
    return sum(map(str.isalpha, characters)) / max(1, len(characters))


def kept_lines(documents: Iterable[Document], counts: Counter[str]) -> Iterator[tuple[str, ...]]:
    """Yield source, target and document of each pair that no rule drops; count pairs by rule."""
    seen: set[Pair] = set()
    for name, source, target in documents:
        for key in source:
            for pair in sentence_pairs(source[key], target[key]) if key in target else ():
                reason = reason_to_drop(*pair) or ("repeated" if pair in seen else None)
                counts[reason or "kept"] += 1
                if reason is None:
                    seen.add(pair)
                    yield (*pair, name)


def main() -> None:
    with script(__doc__) as parser:
        texts = parser.add_mutually_exclusive_group(required=True)
        texts.add_argument("--help-root", type=Path)
        texts.add_argument("--wheel", type=Path)
        parser.add_argument("--source-lang", required=True)
        parser.add_argument("--target-lang", required=True)
        parser.add_argument("--output", type=Path, required=True)
        given = parser.parse_args()
        read, path = (
            (help_pages, given.help_root) if given.help_root else (integrations, given.wheel)
        )
        languages = given.source_lang, given.target_lang
        counts: Counter[str] = Counter()
        documents = tqdm(read(path, languages), desc="documents", leave=False)
        sides = zip(*kept_lines(documents, counts), strict=True)
        given.output.mkdir(parents=True)
        for suffix, lines in zip((*languages, "documents"), sides, strict=True):
            (given.output / f"text.{suffix}").write_text(
                "".join(f"{line}\n" for line in lines), "utf-8"
            )
        dropped = ", ".join(f"{name} {n:,}" for name, n in counts.most_common() if name != "kept")
        print(f"{counts['kept']:,} pairs kept; dropped: {dropped or 'none'}", file=sys.stderr)


if __name__ == "__main__":
    main()

"""Make the demo's text: lines of source, target and page, separated by tabs.

    python prepare.py --help-root unpacked/usr/share/libreoffice/help --source-lang en \
        --target-lang de --output train.tsv --max-words 40

LibreOffice's help packages hold the same HTML files in each language, with the same ids for
paragraphs and headings, by which the text is aligned. Left out are pairs of which one side is of
markup, mostly not letters, shorter than 3 words or longer than --max-words, equal to the other or
more than twice as long, and repeated pairs.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from lxml import etree, html

from fairseq_aiayn.console import note, script
from fairseq_aiayn.files import write_whole

Pair = tuple[str, str]  # source and target

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


def main() -> None:
    with script(__doc__) as parser:
        parser.add_argument("--help-root", type=Path, required=True)
        parser.add_argument("--source-lang", required=True)
        parser.add_argument("--target-lang", required=True)
        parser.add_argument("--output", type=Path, required=True)
        parser.add_argument("--max-words", type=int, required=True)
        given = parser.parse_args()
        languages = given.source_lang, given.target_lang
        lines = [*clean_lines(help_blocks(given.help_root, languages), given.max_words)]
        note(f"{len(lines):,} different pairs of at most {given.max_words} words in the help")
        write_whole(given.output, "".join(f"{a}\t{b}\t{page}\n" for (a, b), page in lines))


if __name__ == "__main__":
    main()

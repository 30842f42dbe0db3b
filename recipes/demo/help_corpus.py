"""Extract parallel text from LibreOffice's help pages.

Each language's package holds the same HTML files, with the same ids for paragraphs and headings, so
the text is aligned by (file, id).

    python help_corpus.py --help-root unpacked/usr/share/libreoffice/help \
        --source-lang en --target-lang de --output corpus
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from multiprocessing import Pool
from pathlib import Path

from lxml import etree, html
from pair_rules import summary, write_pairs
from tqdm import tqdm

from fairseq_aiayn.text import script

HELP_DIRECTORY = {"en": "en-US", "de": "de", "fr": "fr"}
SKIPPED_CLASSES = ("code", "example", "image", "youtube")
BLOCK_IDS = ("par_", "hd_")


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


def paragraph_pairs(
    name: str, source_root: Path, target_root: Path
) -> tuple[str, list[tuple[str, str]]]:
    """Align one page's paragraphs by id, in the source page's order."""
    source = blocks((source_root / name).read_bytes())
    target = blocks((target_root / name).read_bytes())
    return name, [(text, target[key]) for key, text in source.items() if key in target]


def page_names(source_root: Path, target_root: Path) -> list[str]:
    """List the pages that both languages have; raises ValueError if there is none."""
    names = [
        {page.relative_to(root).as_posix() for page in root.rglob("*.html")}
        for root in (source_root, target_root)
    ]
    shared = sorted(names[0] & names[1])
    if not shared:
        raise ValueError(f"{source_root} and {target_root} must have *.html files in common: none")
    return shared


def extract(
    help_root: Path, source_lang: str, target_lang: str, output: Path, workers: int = 2
) -> str:
    """Write a language pair's text to `output`; return a summary of one line."""
    roots = [help_root / HELP_DIRECTORY[lang] / "text" for lang in (source_lang, target_lang)]
    names = page_names(*roots)
    align = partial(paragraph_pairs, source_root=roots[0], target_root=roots[1])
    with Pool(workers) as pool:
        documents = tqdm(
            pool.imap(align, names, chunksize=32), total=len(names), desc="help pages", leave=False
        )
        counts = write_pairs(documents, (source_lang, target_lang), output)
    return f"{len(names):,} pages: {summary(counts)}"


def main() -> None:
    with script(__doc__) as parser:
        parser.add_argument("--help-root", type=Path, required=True)
        parser.add_argument("--source-lang", choices=HELP_DIRECTORY, required=True)
        parser.add_argument("--target-lang", choices=HELP_DIRECTORY, required=True)
        parser.add_argument("--output", type=Path, required=True)
        arguments = parser.parse_args()
        print(extract(**vars(arguments)), file=sys.stderr)


if __name__ == "__main__":
    main()

"""Extract parallel text from the interface translations in Home Assistant's wheel.

Every integration in the wheel has translations/LANG.json, nested objects with the same keys in all
languages, so the text is aligned by (integration, key).

    python interface_corpus.py --wheel homeassistant.whl \
        --source-lang en --target-lang de --output corpus
"""

from __future__ import annotations

import json
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

from pair_rules import summary, write_pairs
from tqdm import tqdm

from fairseq_aiayn.text import script


def leaves(tree: dict | str, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield (key path, text) for every string in nested objects."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from leaves(value, f"{path}/{key}")
    elif isinstance(tree, str):
        yield path, tree


def documents(
    wheel: zipfile.ZipFile, source_lang: str, target_lang: str
) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield each integration's name with its pairs of texts, aligned by key."""
    members = set(wheel.namelist())
    sources = sorted(n for n in members if n.endswith(f"/translations/{source_lang}.json"))
    for source_name in tqdm(sources, desc="integrations", leave=False):
        target_name = source_name.removesuffix(f"{source_lang}.json") + f"{target_lang}.json"
        if target_name in members:
            source = dict(leaves(json.loads(wheel.read(source_name))))
            target = dict(leaves(json.loads(wheel.read(target_name))))
            pairs = [(text, target[key]) for key, text in source.items() if key in target]
            yield source_name, pairs


def extract(wheel: Path, source_lang: str, target_lang: str, output: Path) -> str:
    """Write a language pair's text to `output`; return a summary of one line."""
    with zipfile.ZipFile(wheel) as archive:
        counts = write_pairs(
            documents(archive, source_lang, target_lang), (source_lang, target_lang), output
        )
    if not counts["kept"]:
        raise ValueError(f"{wheel} must hold translations/{target_lang}.json files: none used")
    return summary(counts)


def main() -> None:
    with script(__doc__) as parser:
        parser.add_argument("--wheel", type=Path, required=True)
        parser.add_argument("--source-lang", default="en")
        parser.add_argument("--target-lang", default="de")
        parser.add_argument("--output", type=Path, required=True)
        arguments = parser.parse_args()
        try:
            print(extract(**vars(arguments)), file=sys.stderr)
        except zipfile.BadZipFile as error:
            raise ValueError(error) from None


if __name__ == "__main__":
    main()

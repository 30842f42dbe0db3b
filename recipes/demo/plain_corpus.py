"""Prepare plain parallel text as a recipe's corpus.

The directory holds either train.SRC and train.TGT with a valid (or val, dev) and a test set, or one
pair of files with any name, from which the recipe holds out both sets. Files may end in .gz. They
are checked and written as train.*, valid.* and test.*, or as text.*.

    python recipes/demo/plain_corpus.py --corpus DIR --source-lang en --target-lang de \\
        --output corpus
"""

from __future__ import annotations

import sys
from pathlib import Path

from fairseq_aiayn.text import read_parallel, script, write_whole

SPLIT_NAMES = {"train": ("train",), "valid": ("valid", "val", "dev"), "test": ("test",)}


def find_pairs(corpus: Path, languages: tuple[str, str]) -> dict[str, tuple[Path, Path]]:
    """Return the pair of files of each split, or of "text" if there is only one pair.

    Raises ValueError if there is no pair, or if the pair of a split is ambiguous.
    """
    if not corpus.is_dir():
        raise ValueError(f"{corpus}: the corpus must be a directory")
    pairs = {}
    for path in sorted(corpus.glob(f"*.{languages[0]}*")):
        stem, _, suffix = path.name.rpartition(f".{languages[0]}")
        target = path.with_name(f"{stem}.{languages[1]}{suffix}")
        if suffix in ("", ".gz") and target.is_file():
            pairs[stem] = path, target
    wanted = f"NAME.{languages[0]} and NAME.{languages[1]} (or with .gz)"
    if not pairs:
        raise ValueError(f"{corpus}: must hold {wanted}: found none")
    if len(pairs) == 1:
        return {"text": next(iter(pairs.values()))}
    return {split: pairs[_stem_of(split, sorted(pairs), corpus)] for split in SPLIT_NAMES}


def _stem_of(split: str, stems: list[str], corpus: Path) -> str:
    """Find the files of a split: by their exact name first, otherwise by its beginning."""
    for name in SPLIT_NAMES[split]:
        if name in stems:
            return name
    found = [stem for stem in stems if stem.startswith(SPLIT_NAMES[split])]
    if len(found) != 1:
        raise ValueError(
            f"{corpus}: must hold one pair of files called {' or '.join(SPLIT_NAMES[split])} "
            f"(or a single pair in all), found {', '.join(found or stems)}"
        )
    return found[0]


def unpack(pairs: dict[str, tuple[Path, Path]], languages: tuple[str, str], output: Path) -> None:
    """Write each split's two files to `output`, unpacked.

    Raises OSError or ValueError, with file and line, for text that cannot be read, is empty, not
    UTF-8 or not parallel.
    """
    output.mkdir(parents=True, exist_ok=True)
    for split, paths in pairs.items():
        texts = read_parallel(*paths)
        for language, lines in zip(languages, texts):
            write_whole(output / f"{split}.{language}", "".join(f"{line}\n" for line in lines))
        print(f"{split}: {len(texts[0]):,} pairs from {paths[0].name}", file=sys.stderr)


def main() -> None:
    with script(__doc__) as parser:
        parser.add_argument("--corpus", type=Path, required=True)
        parser.add_argument("--source-lang", required=True)
        parser.add_argument("--target-lang", required=True)
        parser.add_argument("--output", type=Path, required=True)
        arguments = parser.parse_args()
        languages = arguments.source_lang, arguments.target_lang
        unpack(find_pairs(arguments.corpus, languages), languages, arguments.output)


if __name__ == "__main__":
    main()

"""Clean a corpus and hold out its validation and test sets, if it has none.

The corpus is either three pairs of files, train.*, valid.* (or val.*, dev.*) and test.*, which stay
separate, or one pair with any name. From that, both sets are held out: whole documents if
text.documents names each line's document, otherwise two blocks of lines at the end. No sentence of
a set that is held out here, in either language, stays in the training text; of given sets, such
sentences are counted. Files may end in .gz.

    python split.py --corpus DIR --source-lang en --target-lang de --output data \
        --max-words 40 --held-out 1000
"""

from __future__ import annotations

import hashlib
import sys
from collections import Counter, defaultdict
from pathlib import Path

from fairseq_aiayn.text import read_lines, read_parallel, script, write_whole

Pair = tuple[str, str]

SPLITS = {"train": ("train",), "valid": ("valid", "val", "dev"), "test": ("test",)}
LONGEST_HELD_OUT = 250  # words; in a given test set, a longer line is not a sentence
MIN_PAIRS = 20
HELD_OUT_SHARE = 0.05  # the largest share of the corpus for each held-out set
DOCUMENT_SHARE = 0.1  # a document larger than this share of a held-out set stays in training


def say(message: str) -> None:
    print(message, file=sys.stderr)


def find_files(corpus: Path, languages: Pair) -> dict[str, tuple[Path, Path]]:
    """Return the pair of files of each split, or of "text" if there is only one pair.

    Raises ValueError if there is no pair, or if the pair of a split is ambiguous.
    """
    found = {}
    for path in sorted(corpus.glob(f"*.{languages[0]}*")):
        stem, _, suffix = path.name.rpartition(f".{languages[0]}")
        target = path.with_name(f"{stem}.{languages[1]}{suffix}")
        if suffix in ("", ".gz") and target.is_file():
            found[stem] = path, target
    if not found:
        names = " and ".join(f"NAME.{language}" for language in languages)
        raise ValueError(f"{corpus}: must be a directory with {names} (or with .gz): found none")
    if len(found) == 1:
        return {"text": next(iter(found.values()))}
    return {split: found[_stem(split, list(found), corpus)] for split in SPLITS}


def _stem(split: str, stems: list[str], corpus: Path) -> str:
    """Return the name of a split's files: by an exact name first, otherwise by its beginning."""
    exact = [name for name in SPLITS[split] if name in stems]
    matches = exact or [stem for stem in stems if stem.startswith(SPLITS[split])]
    if len(matches) != 1 and not exact:
        raise ValueError(
            f"{corpus}: must hold one pair of files called {' or '.join(SPLITS[split])} "
            f"(or a single pair in all), found {', '.join(matches or stems)}"
        )
    return matches[0]


def clean(pairs: list[Pair], max_words: int, what: str) -> list[bool]:
    """Return for each pair whether both sides have 1 to `max_words` words.

    Prints how many pairs are dropped; raises ValueError if none is left.
    """
    counts: Counter[str] = Counter()
    kept = []
    for pair in pairs:
        words = [len(text.split()) for text in pair]
        reason = "empty" if not all(words) else "too long" if max(words) > max_words else "kept"
        counts[reason] += 1
        kept.append(reason == "kept")
    if not counts["kept"]:
        raise ValueError(
            f"{what}: must have pairs of 1 to {max_words} words, all {len(pairs)} drop"
        )
    say(
        f"{what}: {counts['kept']:,} pairs; dropped {counts['empty']:,} with an empty side, "
        f"{counts['too long']:,} of more than {max_words} words"
    )
    return kept


def split_by_document(documents: list[str], size: int) -> list[str]:
    """Assign each line a split, by whole documents, until each held-out set has `size` lines.

    Documents are ordered by a hash of their names. This order is the same on every machine and
    unrelated to the order of the corpus, in which neighbouring documents are alike.
    """
    lines = Counter(documents)
    order = sorted(lines, key=lambda name: hashlib.sha256(name.encode()).digest())
    split_of: dict[str, str] = defaultdict(lambda: "train")
    waiting = (name for name in order if lines[name] <= max(1, DOCUMENT_SHARE * size))
    for split in ("test", "valid"):
        taken = 0
        while taken < size and (name := next(waiting, None)):
            split_of[name] = split
            taken += lines[name]
    return [split_of[name] for name in documents]


def without_sentences_of(pairs: list[Pair], held_out: list[Pair]) -> list[Pair]:
    """Return the pairs that have no side in common with `held_out`."""
    sources, targets = map(set, zip(*held_out, strict=True))
    return [pair for pair in pairs if pair[0] not in sources and pair[1] not in targets]


def hold_out(
    pairs: list[Pair], documents: list[str] | None, held_out: int
) -> dict[str, list[Pair]]:
    """Split one text into train, valid and test, which share no sentence.

    Raises ValueError if the text is too small or too repetitive.
    """
    if len(pairs) < MIN_PAIRS:
        raise ValueError(f"the corpus must have at least {MIN_PAIRS} pairs, got {len(pairs)}")
    size = max(1, min(held_out, int(HELD_OUT_SHARE * len(pairs))))
    blocks = ["train"] * (len(pairs) - 2 * size) + ["valid"] * size + ["test"] * size
    assigned = split_by_document(documents, size) if documents else blocks
    splits: dict[str, list[Pair]] = {name: [] for name in SPLITS}
    for pair, split in zip(pairs, assigned, strict=True):
        splits[split].append(pair)
    if not all(splits.values()):
        raise ValueError("the corpus must have several documents of similar size to hold some out")
    before = len(splits["train"])
    splits["valid"] = without_sentences_of(splits["valid"], splits["test"])
    for name in ("valid", "test"):
        splits["train"] = without_sentences_of(splits["train"], splits[name] or splits["test"])
    if not splits["train"] or not splits["valid"]:
        raise ValueError(
            "the corpus repeats its sentences: without those of the held-out sets, it has none left"
        )
    counts = ", ".join(f"{name} {len(splits[name]):,}" for name in SPLITS)
    say(
        f"{counts} pairs; {before - len(splits['train']):,} left training because they are held out"
    )
    return splits


def make_splits(
    corpus: Path, languages: Pair, max_words: int, held_out: int
) -> dict[str, list[Pair]]:
    """Return the cleaned pairs of train, valid and test."""
    splits = {}
    for name, paths in find_files(corpus, languages).items():
        pairs = list(zip(*read_parallel(*paths), strict=True))
        kept = clean(pairs, LONGEST_HELD_OUT if name in ("valid", "test") else max_words, name)
        splits[name] = [pair for pair, keep in zip(pairs, kept, strict=True) if keep]
    if "text" in splits:
        names = corpus / "text.documents"
        if not names.exists():
            return hold_out(splits["text"], None, held_out)
        documents = zip(read_lines(names), kept, strict=True)
        return hold_out(splits["text"], [name for name, keep in documents if keep], held_out)
    for name in ("valid", "test"):
        rest = without_sentences_of(splits["train"], splits[name])
        if shared := len(splits["train"]) - len(rest):
            share = shared / len(splits["train"])
            say(
                f"train: {shared:,} pairs ({share:.1%}) have a sentence of {name}, in either "
                "language: scores may be too good"
            )
    return splits


def main() -> None:
    with script(__doc__) as parser:
        parser.add_argument("--corpus", type=Path, required=True)
        parser.add_argument("--source-lang", required=True)
        parser.add_argument("--target-lang", required=True)
        parser.add_argument("--output", type=Path, required=True)
        parser.add_argument("--max-words", type=int, required=True)
        parser.add_argument("--held-out", type=int, required=True, metavar="PAIRS")
        given = parser.parse_args()
        languages = given.source_lang, given.target_lang
        splits = make_splits(given.corpus, languages, given.max_words, given.held_out)
        given.output.mkdir(parents=True, exist_ok=True)
        for name, pairs in splits.items():
            for language, lines in zip(languages, zip(*pairs, strict=True), strict=True):
                text = "".join(" ".join(line.split()) + "\n" for line in lines)
                write_whole(given.output / f"{name}.{language}", text)


if __name__ == "__main__":
    main()

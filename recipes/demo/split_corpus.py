"""Clean a corpus and hold out its development and test sets.

The corpus is either train.*, valid.* and test.*, which stay separate, or text.*, from which this
script holds out both sets: whole documents if text.documents names each line's document, otherwise
two blocks of consecutive lines at the end. No sentence of a set that is held out here, in either
language, stays in the training text; of given sets, such sentences are counted.

    python recipes/demo/split_corpus.py --corpus corpus --source-lang en \\
        --target-lang de --output data --max-words 40 --held-out 1000
"""

from __future__ import annotations

import hashlib
import sys
from collections import Counter, defaultdict
from pathlib import Path

from fairseq_aiayn.text import read_lines, read_parallel, script

Pair = tuple[str, str]

SPLITS = ("train", "valid", "test")
LONGEST_HELD_OUT = 250  # words; in a given test set, a longer line is not a sentence
MIN_PAIRS = 20
HELD_OUT_SHARE = 0.05  # the largest share of the corpus for each held-out set
DOCUMENT_SHARE = 0.1  # a document larger than this share of a held-out set stays in training


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
    print(
        f"{what}: {counts['kept']:,} pairs; dropped {counts['empty']:,} with an empty side, "
        f"{counts['too long']:,} of more than {max_words} words",
        file=sys.stderr,
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


def split_by_block(count: int, size: int) -> list[str]:
    """Assign each line a split: test for the last `size` lines, valid for the `size` before."""
    return ["train"] * (count - 2 * size) + ["valid"] * size + ["test"] * size


def without_sentences_of(pairs: list[Pair], held_out: list[Pair]) -> list[Pair]:
    """Return the pairs that have no side in common with `held_out`."""
    sources, targets = map(set, zip(*held_out))
    return [pair for pair in pairs if pair[0] not in sources and pair[1] not in targets]


def report_shared(splits: dict[str, list[Pair]]) -> None:
    """Print how many training pairs have a sentence of a given held-out set; they are kept."""
    train = splits["train"]
    for name in ("valid", "test"):
        shared = len(train) - len(without_sentences_of(train, splits[name]))
        if shared:
            share = f"{shared / len(train):.1%}"
            print(
                f"train: {shared:,} pairs ({share}) have a sentence of {name}, in either language: "
                "scores may be too good",
                file=sys.stderr,
            )


def hold_out(
    pairs: list[Pair], documents: list[str] | None, held_out: int
) -> dict[str, list[Pair]]:
    """Split one text into train, valid and test, which share no sentence.

    Raises ValueError if there are fewer than MIN_PAIRS pairs.
    """
    if len(pairs) < MIN_PAIRS:
        raise ValueError(f"the corpus must have at least {MIN_PAIRS} pairs, got {len(pairs)}")
    size = max(1, min(held_out, int(HELD_OUT_SHARE * len(pairs))))
    assigned = split_by_document(documents, size) if documents else split_by_block(len(pairs), size)
    splits = {name: [p for p, s in zip(pairs, assigned) if s == name] for name in SPLITS}
    if not all(splits.values()):
        raise ValueError("the corpus must have several documents of similar size to hold some out")
    valid = without_sentences_of(splits["valid"], splits["test"])
    train = without_sentences_of(splits["train"], splits["valid"] + splits["test"])
    if not train or not valid:
        raise ValueError(
            "the corpus repeats its sentences: without those of the held-out sets, it has none left"
        )
    print(
        f"train {len(train):,}, valid {len(valid):,}, test {len(splits['test']):,} pairs; "
        f"{len(splits['train']) - len(train):,} left training because a held-out set has them",
        file=sys.stderr,
    )
    return {"train": train, "valid": valid, "test": splits["test"]}


def read_pairs(corpus: Path, name: str, languages: Pair) -> list[Pair]:
    """Read the two files `name`.SRC and `name`.TGT."""
    return list(zip(*read_parallel(*(corpus / f"{name}.{language}" for language in languages))))


def make_splits(
    corpus: Path, languages: Pair, max_words: int, held_out: int
) -> dict[str, list[Pair]]:
    """Return the cleaned pairs of train, valid and test."""
    if not (corpus / f"text.{languages[0]}").exists():
        splits = {name: read_pairs(corpus, name, languages) for name in SPLITS}
        limits = {"train": max_words, "valid": LONGEST_HELD_OUT, "test": LONGEST_HELD_OUT}
        kept = {
            name: [pair for pair, keep in zip(pairs, clean(pairs, limits[name], name)) if keep]
            for name, pairs in splits.items()
        }
        report_shared(kept)
        return kept
    pairs = read_pairs(corpus, "text", languages)
    kept = clean(pairs, max_words, "corpus")
    names = corpus / "text.documents"
    documents = [n for n, keep in zip(read_lines(names), kept) if keep] if names.exists() else None
    return hold_out([pair for pair, keep in zip(pairs, kept) if keep], documents, held_out)


def main() -> None:
    with script(__doc__) as parser:
        parser.add_argument("--corpus", type=Path, required=True)
        parser.add_argument("--source-lang", required=True)
        parser.add_argument("--target-lang", required=True)
        parser.add_argument("--output", type=Path, required=True)
        parser.add_argument("--max-words", type=int, required=True)
        parser.add_argument("--held-out", type=int, required=True, metavar="PAIRS")
        arguments = parser.parse_args()
        languages = arguments.source_lang, arguments.target_lang
        splits = make_splits(arguments.corpus, languages, arguments.max_words, arguments.held_out)
        arguments.output.mkdir(parents=True, exist_ok=True)
        for name, pairs in splits.items():
            for language, lines in zip(languages, zip(*pairs)):
                text = "".join(" ".join(line.split()) + "\n" for line in lines)
                (arguments.output / f"{name}.{language}").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

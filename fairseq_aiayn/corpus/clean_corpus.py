"""Turn the training texts of a manifest into clean tokens, in shards.

Each text is read directly from its archive; clean_pairs.py cleans its pairs. An interrupted run
resumes and skips finished shards. At the end, OUTPUT holds statistics.json and the shards of this
corpus only.

    python -m fairseq_aiayn.corpus.clean_corpus --manifest corpus.toml --directory downloads \\
        --source-lang en \\
        --target-lang de --output tokens --workers 2 --tokenizer moses --normalize \\
        --max-length 250 --max-ratio 1.5
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice, zip_longest
from pathlib import Path

from fairseq_aiayn.corpus import shards
from fairseq_aiayn.corpus.archives import open_lines
from fairseq_aiayn.corpus.clean_pairs import REASONS, TOKENIZERS, Pair, Settings, clean
from fairseq_aiayn.corpus.manifest import Text, add_manifest_options, read_manifest
from fairseq_aiayn.text import aligned_lines, in_order, script, write_whole

Chunk = tuple[str, list[Pair]]  # the name of a shard and the pairs that it is made from
TextCounts = tuple[str, dict[str, int]]  # name, and pairs by COLUMNS

COLUMNS = ("read", "kept", *REASONS)
MOST_NOT_UTF8 = 0.01  # of a text's pairs; with more, the text must have another encoding


def clean_corpus(
    texts: tuple[Text, ...], directory: Path, settings: Settings, output: Path, workers: int
) -> list[TextCounts]:
    """Make the shards of all texts in `output`; return the counts of each text.

    Raises ValueError if a text is broken, with its name and the fault, or if no pair is kept.
    """
    output.mkdir(parents=True, exist_ok=True)
    statistics = output / "statistics.json"
    statistics.unlink(missing_ok=True)
    counts: list[TextCounts] = []
    names: set[str] = set()
    for place, text in enumerate(texts, start=1):
        chunks = _chunks(read_pairs(directory, text, settings.languages), place, text)
        of_text = _clean_text(text, partial(clean_shard, output, settings), chunks, workers)
        counts.append((text.name, of_text))
        number = -(-of_text["read"] // shards.SHARD_PAIRS)
        names |= {shards.shard_name(place, text.name, shard) for shard in range(number)}
    if not any(of_text["kept"] for _, of_text in counts):
        read = sum(of_text["read"] for _, of_text in counts)
        raise ValueError(f"the corpus must have pairs to keep, all {read:,} drop")
    shards.remove_shards(output, keep=names)
    texts_record = [{"name": name, **of_text} for name, of_text in counts]
    record = {"settings": settings.record(), "texts": texts_record}
    write_whole(statistics, f"{json.dumps(record, indent=2)}\n".encode())
    return counts


def read_pairs(directory: Path, text: Text, languages: tuple[str, str]) -> Iterator[Pair]:
    """Yield the pairs of a text.

    Raises ValueError after the last pair if there is none, if one side has more lines, or if the
    number differs from the manifest's.
    """
    sides = [open_lines(directory, location) for location in (text.source, text.target)]
    count = 0
    for pair in zip_longest(*sides):
        if None in pair:
            longer = count + 1 + sum(1 for side in sides for _ in side)
            source, target = (count if line is None else longer for line in pair)
            raise ValueError(
                f"{text.name}: must have as many lines in {languages[0]} as in {languages[1]}, "
                f"has {source:,} and {target:,}"
            )
        yield pair
        count += 1
    if not count:
        raise ValueError(f"{text.name}: must have sentences, has none")
    if text.sentences not in (None, count):
        raise ValueError(f"{text.name}: must have {text.sentences:,} sentences, has {count:,}")


def clean_shard(output: Path, settings: Settings, chunk: Chunk) -> dict[str, int]:
    """Make a shard unless it is finished for the same lines and settings; return its counts."""
    name, pairs = chunk
    lines = b"\n".join(line for pair in pairs for line in pair)
    made = {**settings.record(), "sha256": hashlib.sha256(lines).hexdigest()}
    counts = shards.finished_counts(output, name, made)
    if counts is None:
        kept, counts = clean(pairs, settings)
        texts = {x: [pair[side] for pair in kept] for side, x in enumerate(settings.languages)}
        shards.write_shard(output, name, texts, made, counts)
    return counts


def _chunks(pairs: Iterator[Pair], place: int, text: Text) -> Iterator[Chunk]:
    """Yield the name and the pairs of each shard of a text."""
    chunks = iter(lambda: list(islice(pairs, shards.SHARD_PAIRS)), [])
    for number, chunk in enumerate(chunks):
        yield shards.shard_name(place, text.name, number), chunk


def _clean_text(
    text: Text, make: Callable[[Chunk], dict[str, int]], chunks: Iterator[Chunk], workers: int
) -> dict[str, int]:
    total: Counter[str] = Counter()
    with shards.pairs_bar(text.name, text.sentences) as bar:
        for counts in in_order(make, chunks, workers):
            total.update(counts)
            bar.update(counts["read"])
    if total["not UTF-8"] > MOST_NOT_UTF8 * total["read"]:
        raise ValueError(
            f"{text.name}: must be UTF-8, {total['not UTF-8']:,} of {total['read']:,} pairs are not"
        )
    return {column: total[column] for column in COLUMNS}


def table(counts: Sequence[TextCounts]) -> str:
    """Return the counts of each text and their sums as aligned lines."""
    total = {column: sum(of_text[column] for _, of_text in counts) for column in COLUMNS}
    rows = [["pairs", *COLUMNS]]
    rows += [
        [name, *(f"{of_text[column]:,}" for column in COLUMNS)]
        for name, of_text in [*counts, ("all", total)]
    ]
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
        given = parser.parse_args()
        languages = given.source_lang, given.target_lang
        settings = Settings(
            languages,
            given.tokenizer,
            given.normalize,
            given.max_length,
            given.max_ratio,
            given.lowercase,
        )
        texts = read_manifest(given.manifest, *languages).train
        counts = clean_corpus(texts, given.directory, settings, given.output, given.workers)
        print(table(counts), file=sys.stderr)


if __name__ == "__main__":
    main()

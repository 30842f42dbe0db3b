"""Count the words of a corpus in shards, over both languages together.

Prints "WORD COUNT" lines, most frequent first, as input of subword-nmt learn-bpe --dict-input.
Memory grows only with the number of distinct words. Words that occur less often than --min-count
are left out: in running text most distinct words occur once, and learn-bpe keeps an index of each.

    python -m fairseq_aiayn.corpus.count_words --shards tokens --languages en de --workers 2 \\
        --min-count 2 > words
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from fairseq_aiayn.corpus.shards import add_shards_options, over_shards, read_counts
from fairseq_aiayn.text import script


def count_words(directory: Path, languages: tuple[str, ...], workers: int) -> Counter[bytes]:
    """Count the words of all shards in all languages; raises ValueError if there is no shard."""
    total: Counter[bytes] = Counter()
    for counts in over_shards(
        "words", partial(count_shard, directory, languages), directory, workers
    ):
        total.update(counts)
    return total


def count_shard(
    directory: Path, languages: tuple[str, ...], name: str
) -> tuple[int, Counter[bytes]]:
    """Return the number of pairs in a shard and the counts of its words."""
    counts: Counter[bytes] = Counter()
    for language in languages:
        # Splitting bytes is enough: after cleaning, the only white space is a space between words.
        counts.update((directory / f"{name}.{language}").read_bytes().split())
    return read_counts(directory, name)["kept"], counts


def dictionary(counts: Mapping[bytes, int], min_count: int) -> Iterator[bytes]:
    """Yield "WORD COUNT" for each word with at least `min_count`, by frequency, then by word.

    Raises ValueError for a min_count below 1 or above all counts.
    """
    if min_count < 1:
        raise ValueError(f"min-count must be at least 1, got {min_count}")
    frequent = [item for item in counts.items() if item[1] >= min_count]
    if not frequent:
        raise ValueError(f"no word is seen {min_count} times, the value of min-count")
    for word, count in sorted(frequent, key=lambda item: (-item[1], item[0])):
        yield b"%s %d\n" % (word, count)


def main() -> None:
    with script(__doc__) as parser:
        add_shards_options(parser)
        parser.add_argument("--workers", type=int, required=True, metavar="PROCESSES")
        parser.add_argument("--min-count", type=int, default=1, metavar="N")
        arguments = parser.parse_args()
        counts = count_words(arguments.shards, tuple(arguments.languages), arguments.workers)
        sys.stdout.buffer.writelines(dictionary(counts, arguments.min_count))


if __name__ == "__main__":
    main()

"""A corpus in shards: small files of parallel text, made by several processes in parallel.

NAME.en and NAME.de hold a shard's text, with equal numbers of lines. NAME.done is written last: it
is JSON that says how and from what the two files were made, what was counted and how many bytes
they have. A shard is made again if its NAME.done is missing or does not match.
"""

from __future__ import annotations

import json
import re
from argparse import ArgumentParser
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from tqdm import tqdm

from fairseq_aiayn.text import in_order, write_whole

SHARD_PAIRS = 20_000  # pairs read per shard: a few seconds of work, a few megabytes
SHARD_FILE = re.compile(r"\d{2,}-.+\.\d{5}\.[^.]+(\.part)?")

Result = TypeVar("Result")


# --- files ---


def shard_name(place: int, text: str, number: int) -> str:
    """Name a shard so that sorting by name gives the order of the corpus.

    `place` is the position of the text in the corpus, from 1; `number` that of the shard in the
    text, from 0.
    """
    return f"{place:02d}-{text}.{number:05d}"


def list_shards(directory: Path) -> list[str]:
    """Return the names of the finished shards in order; raises ValueError if there is none."""
    names = sorted(path.name.removesuffix(".done") for path in directory.glob("*.done"))
    if not names:
        raise ValueError(f"{directory}: must hold shards (NAME.done), has none")
    return names


def write_shard(
    directory: Path,
    name: str,
    texts: Mapping[str, Sequence[str]],
    made: Mapping[str, object],
    counts: Mapping[str, int],
) -> None:
    """Write a shard's lines by language, then its marker; `made` says how they were made."""
    marker = directory / f"{name}.done"
    marker.unlink(missing_ok=True)  # it must never describe other text
    sizes = {}
    for language, lines in texts.items():
        content = "".join(f"{line}\n" for line in lines).encode()
        write_whole(directory / f"{name}.{language}", content)
        sizes[language] = len(content)
    record = {"made": made, "counts": counts, "bytes": sizes}
    write_whole(marker, f"{json.dumps(record, indent=2)}\n".encode())


def read_shard(directory: Path, name: str, language: str) -> list[str]:
    """Return the lines of a shard in one language."""
    return (directory / f"{name}.{language}").read_bytes().decode().split("\n")[:-1]


def read_counts(directory: Path, name: str) -> dict[str, int]:
    """Return the counts in a finished shard's marker."""
    return json.loads((directory / f"{name}.done").read_bytes())["counts"]


def count_pairs(directory: Path, names: Iterable[str]) -> int:
    """Return how many pairs finished shards have together."""
    return sum(read_counts(directory, name)["kept"] for name in names)


def add_shards_options(parser: ArgumentParser) -> None:
    """Add the options that name a directory of shards and their languages."""
    parser.add_argument("--shards", type=Path, required=True, metavar="DIR")
    parser.add_argument("--languages", nargs="+", required=True)


def finished_counts(
    directory: Path, name: str, made: Mapping[str, object]
) -> dict[str, int] | None:
    """Return a shard's counts, or None unless it is finished and was made as `made` says."""
    try:
        record = json.loads((directory / f"{name}.done").read_bytes())
        sizes = {
            language: (directory / f"{name}.{language}").stat().st_size
            for language in record["bytes"]
        }
    except (FileNotFoundError, ValueError):
        return None
    return record["counts"] if (record["made"], record["bytes"]) == (made, sizes) else None


def remove_shards(directory: Path, keep: Collection[str]) -> None:
    """Delete the files of all shards but those to keep, and the unfinished files of killed runs."""
    stale = [
        path
        for path in directory.iterdir()
        if SHARD_FILE.fullmatch(path.name) and path.stem not in keep  # the stem of a .part never is
    ]
    for path in sorted(stale, key=lambda path: path.suffix != ".done"):  # the markers first
        path.unlink()


# --- processes ---


def over_shards(
    what: str, function: Callable[[str], tuple[int, Result]], directory: Path, workers: int
) -> Iterator[Result]:
    """Run `function` on the name of each finished shard, as `in_order` does, with a progress bar.

    `function` returns how many pairs the shard has, and its result. Raises ValueError if there is
    no shard.
    """
    names = list_shards(directory)
    with pairs_bar(what, count_pairs(directory, names)) as bar:
        for pairs, result in in_order(function, names, workers):
            bar.update(pairs)
            yield result


def pairs_bar(name: str, total: int | None) -> tqdm:
    """Make a progress bar of sentence pairs; `total` is None if it is not known."""
    return tqdm(desc=name, total=total, unit=" pairs", unit_scale=True, dynamic_ncols=True)

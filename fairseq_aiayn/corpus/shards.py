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
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from pathlib import Path
from typing import TypeVar

from tqdm import tqdm

from fairseq_aiayn.files.whole import write_whole
from fairseq_aiayn.processes import end_with_parent

SHARD_PAIRS = 20_000  # pairs read per shard: a few seconds of work, a few megabytes
TASKS_PER_WORKER = 2  # one running, one waiting
SHARD_FILE = re.compile(r"\d{2,}-.+\.\d{5}\.[^.]+(\.part)?")

Task = TypeVar("Task")
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


def run_tasks(
    function: Callable[[Task], Result], tasks: Iterable[Task], workers: int
) -> Iterator[Result]:
    """Run `function` on each task in `workers` processes; yield the results as they finish.

    Tasks are drawn only as workers need them, so that few are in memory at a time. The first error
    of a task, or of drawing one, is raised at once; tasks that have not begun are dropped. Raises
    OSError if a worker is killed, ValueError for less than one worker.
    """
    if workers < 1:
        raise ValueError(f"workers must be at least 1, got {workers}")
    waiting = iter(tasks)
    running: set[Future[Result]] = set()
    pool = ProcessPoolExecutor(workers, initializer=end_with_parent)
    try:
        while True:
            for task in islice(waiting, TASKS_PER_WORKER * workers - len(running)):
                running.add(pool.submit(function, task))
            if not running:
                return
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                yield future.result()
    except BrokenProcessPool:
        raise OSError("a worker process was killed; is there too little memory?") from None
    finally:
        # After an error, the results of running tasks are not needed.
        pool.shutdown(wait=not running, cancel_futures=True)


def over_shards(
    what: str, function: Callable[[str], tuple[int, Result]], directory: Path, workers: int
) -> Iterator[Result]:
    """Run `function` on the name of each finished shard, as `run_tasks` does, with a progress bar.

    `function` returns how many pairs the shard has, and its result. Raises ValueError if there is
    no shard.
    """
    names = list_shards(directory)
    with pairs_bar(what, count_pairs(directory, names)) as bar:
        for pairs, result in run_tasks(function, names, workers):
            bar.update(pairs)
            yield result


def pairs_bar(name: str, total: int | None) -> tqdm:
    """Make a progress bar of sentence pairs; `total` is None if it is not known."""
    return tqdm(desc=name, total=total, unit=" pairs", unit_scale=True, dynamic_ncols=True)

"""Cut the training text into pieces and join its shards into train.SRC and train.TGT.

An interrupted run resumes: shards finished with the same codes or model are kept until all shards
are joined.

    python -m fairseq_aiayn.corpus.apply_pieces --shards tokens --languages en de \\
        --codes pieces/codes \\
        --output pieces --workers 2
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from fairseq_aiayn.corpus import shards
from fairseq_aiayn.corpus.pieces import add_pieces_options, open_pieces
from fairseq_aiayn.files.whole import whole_path
from fairseq_aiayn.messages import one_line_errors


@dataclass(frozen=True)
class PiecesFile:
    """The file that text is cut with: byte pair codes or a sentencepiece model; one is None."""

    codes: Path | None
    model: Path | None
    sha256: str


@dataclass(frozen=True)
class ShardTask:
    """One shard to cut into pieces."""

    tokens: Path
    output: Path
    name: str
    languages: tuple[str, ...]
    pieces: PiecesFile


def read_pieces_file(codes: Path | None, model: Path | None) -> PiecesFile:
    """Return codes or a model with a hash of the content.

    Raises OSError if the file cannot be read, ValueError if it is neither.
    """
    pieces = PiecesFile(codes, model, hashlib.sha256((codes or model).read_bytes()).hexdigest())
    _open(pieces)
    return pieces


def apply_pieces(
    tokens: Path, languages: tuple[str, ...], pieces: PiecesFile, output: Path, workers: int
) -> None:
    """Write train.LANGUAGE for each language; raises ValueError if there is no shard."""
    output.mkdir(parents=True, exist_ok=True)
    names = shards.list_shards(tokens)
    total = sum(shards.read_counts(tokens, name)["kept"] for name in names)
    tasks = [ShardTask(tokens, output, name, languages, pieces) for name in names]
    with shards.pairs_bar("pieces", total) as bar:
        for counts in shards.run_tasks(apply_to_shard, tasks, workers):
            bar.update(counts["kept"])
    for language in languages:
        _join([output / f"{name}.{language}" for name in names], output / f"train.{language}")
    shards.remove_shards(output, keep=())


def apply_to_shard(task: ShardTask) -> dict[str, int]:
    """Cut a shard unless it is finished for the same pieces and tokens; return its counts."""
    marker = (task.tokens / f"{task.name}.done").read_bytes()
    made = {
        "languages": list(task.languages),
        "pieces": task.pieces.sha256,
        "tokens": hashlib.sha256(marker).hexdigest(),
    }
    counts = shards.finished_counts(task.output, task.name, made)
    if counts is None:
        cut = _open(task.pieces)
        texts = {
            language: [cut(line) for line in shards.read_shard(task.tokens, task.name, language)]
            for language in task.languages
        }
        counts = {"kept": len(texts[task.languages[0]])}
        shards.write_shard(task.output, task.name, texts, made, counts)
    return counts


@cache
def _open(pieces: PiecesFile) -> Callable[[str], str]:
    return open_pieces(pieces.codes, pieces.model)


def _join(parts: Sequence[Path], whole: Path) -> None:
    with whole_path(whole) as unfinished, unfinished.open("wb") as joined:
        for part in parts:
            with part.open("rb") as stream:
                shutil.copyfileobj(stream, joined)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shards", type=Path, required=True, metavar="DIR")
    parser.add_argument("--languages", nargs="+", required=True)
    add_pieces_options(parser)
    parser.add_argument("--output", type=Path, required=True, metavar="DIR")
    parser.add_argument("--workers", type=int, required=True, metavar="PROCESSES")
    given = parser.parse_args()
    with one_line_errors("apply_pieces"):
        pieces = read_pieces_file(given.codes, given.model)
        apply_pieces(given.shards, tuple(given.languages), pieces, given.output, given.workers)


if __name__ == "__main__":
    main()

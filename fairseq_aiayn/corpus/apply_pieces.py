"""Cut the training text into pieces and join its shards into train.SRC and train.TGT.

An interrupted run resumes: shards finished with the same codes or model are kept until all shards
are joined.

    python -m fairseq_aiayn.corpus.apply_pieces --shards tokens --languages en de \\
        --codes pieces/codes \\
        --output pieces --workers 2
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from fairseq_aiayn.corpus import shards
from fairseq_aiayn.corpus.pieces import add_pieces_options, open_pieces
from fairseq_aiayn.text import script, whole_path


@dataclass(frozen=True)
class PiecesFile:
    """The file that text is cut with: byte pair codes or a sentencepiece model; one is None."""

    codes: Path | None
    model: Path | None
    sha256: str


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
    cut = partial(cut_shard, tokens, output, languages, pieces)
    names = sorted(shards.over_shards("pieces", cut, tokens, workers))
    for language in languages:
        _join([output / f"{name}.{language}" for name in names], output / f"train.{language}")
    shards.remove_shards(output, keep=())


def cut_shard(
    tokens: Path, output: Path, languages: tuple[str, ...], pieces: PiecesFile, name: str
) -> tuple[int, str]:
    """Cut a shard unless it is finished for the same pieces and tokens.

    Returns the number of its pairs and its name.
    """
    marker = (tokens / f"{name}.done").read_bytes()
    made = {
        "languages": list(languages),
        "pieces": pieces.sha256,
        "tokens": hashlib.sha256(marker).hexdigest(),
    }
    counts = shards.finished_counts(output, name, made)
    if counts is None:
        cut = _open(pieces)
        texts = {x: [cut(line) for line in shards.read_shard(tokens, name, x)] for x in languages}
        counts = {"kept": len(texts[languages[0]])}
        shards.write_shard(output, name, texts, made, counts)
    return counts["kept"], name


@cache
def _open(pieces: PiecesFile) -> Callable[[str], str]:
    return open_pieces(pieces.codes, pieces.model)


def _join(parts: Sequence[Path], whole: Path) -> None:
    with whole_path(whole) as unfinished, unfinished.open("wb") as joined:
        for part in parts:
            with part.open("rb") as stream:
                shutil.copyfileobj(stream, joined)


def main() -> None:
    with script(__doc__) as parser:
        shards.add_shards_options(parser)
        add_pieces_options(parser)
        parser.add_argument("--output", type=Path, required=True, metavar="DIR")
        parser.add_argument("--workers", type=int, required=True, metavar="PROCESSES")
        given = parser.parse_args()
        pieces = read_pieces_file(given.codes, given.model)
        apply_pieces(given.shards, tuple(given.languages), pieces, given.output, given.workers)


if __name__ == "__main__":
    main()

"""Cut text into subword pieces (section 5.1): byte pairs or sentencepiece's pieces.

As a script it cuts standard input, as the held-out sets need it:

    python -m fairseq_aiayn.corpus.pieces --model model.model < text > pieces
"""

from __future__ import annotations

import io
import sys
from argparse import ArgumentParser
from collections.abc import Callable
from contextlib import redirect_stderr
from functools import lru_cache
from pathlib import Path

from fairseq_aiayn.text import STANDARD_INPUT, optional, script, stream_lines

CACHED_WORDS = 200_000


def byte_pairs(codes: Path) -> Callable[[str], str]:
    """Return a function that does to a line what `subword-nmt apply-bpe --codes` does.

    Raises OSError or ValueError if the codes cannot be read, or subword-nmt is missing.
    """
    with optional("subword-nmt"):
        from subword_nmt.apply_bpe import BPE
    try:
        # subword-nmt prints the error, then exits.
        with codes.open(encoding="utf-8", newline="\n") as stream, redirect_stderr(io.StringIO()):
            bpe = BPE(stream)
            bpe.segment("word")  # fails for codes of an unknown version
    except (ValueError, SystemExit, NotImplementedError):
        raise ValueError(f"{codes}: must be codes of subword-nmt learn-bpe, is not") from None

    @lru_cache(CACHED_WORDS)
    def segment(word: str) -> str:
        bpe.cache.clear()  # it is unbounded, unlike the lru_cache around this function
        return bpe.segment(word)

    return lambda line: " ".join(segment(word) for word in line.split(" ") if word)


def sentence_pieces(model: Path) -> Callable[[str], str]:
    """Return a function that cuts a line into sentencepiece's pieces, separated by spaces.

    Raises OSError or ValueError if the model cannot be read, or sentencepiece is missing.
    """
    with optional("sentencepiece"):
        from sentencepiece import SentencePieceProcessor
    processor = SentencePieceProcessor()  # given an empty file, its constructor loads no model
    try:
        processor.LoadFromSerializedProto(model.read_bytes())
    except RuntimeError:
        raise ValueError(f"{model}: must be a sentencepiece model, is not") from None
    return lambda line: " ".join(processor.encode(line, out_type=str))


def add_pieces_options(parser: ArgumentParser) -> None:
    """Add the options --codes and --model, of which one must be given."""
    files = parser.add_mutually_exclusive_group(required=True)
    files.add_argument("--codes", type=Path, help="codes of subword-nmt learn-bpe")
    files.add_argument("--model", type=Path, help="sentencepiece model")


def open_pieces(codes: Path | None, model: Path | None) -> Callable[[str], str]:
    """Return the function that cuts a line by the given file; the other is None."""
    return byte_pairs(codes) if codes else sentence_pieces(model)


def main() -> None:
    with script(__doc__) as parser:
        add_pieces_options(parser)
        arguments = parser.parse_args()
        pieces = open_pieces(arguments.codes, arguments.model)
        for line in stream_lines(STANDARD_INPUT):
            found = pieces(line.removesuffix("\n"))
            sys.stdout.buffer.write(f"{found}\n".encode())


if __name__ == "__main__":
    main()

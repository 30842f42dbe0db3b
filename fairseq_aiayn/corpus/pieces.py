"""Cut tokenised text into subword pieces (section 5.1): byte pairs, or sentencepiece's pieces."""

from __future__ import annotations

import io
from argparse import ArgumentParser
from collections.abc import Callable
from contextlib import redirect_stderr
from functools import lru_cache
from pathlib import Path

from sentencepiece import SentencePieceProcessor
from subword_nmt.apply_bpe import BPE

CACHED_WORDS = 200_000


def byte_pairs(codes: Path) -> Callable[[str], str]:
    """Return a function that does to a line what `subword-nmt apply-bpe --codes` does.

    Raises OSError or ValueError if the codes cannot be read.
    """
    try:
        # It prints what is wrong, then exits.
        with codes.open(encoding="utf-8", newline="\n") as stream, redirect_stderr(io.StringIO()):
            bpe = BPE(stream)
            bpe.segment("word")  # fails for codes of a version that it does not know
    except (ValueError, SystemExit, NotImplementedError):
        raise ValueError(f"{codes}: must be codes of subword-nmt learn-bpe, is not") from None

    @lru_cache(CACHED_WORDS)
    def segment(word: str) -> str:
        bpe.cache.clear()  # it has no bound, the one around this function has
        return bpe.segment(word)

    return lambda line: " ".join(segment(word) for word in line.split(" ") if word)


def sentence_pieces(model: Path) -> Callable[[str], str]:
    """Return a function that puts a space between the pieces that sentencepiece finds in a line.

    Raises OSError or ValueError if the model cannot be read.
    """
    processor = SentencePieceProcessor()  # its own argument takes an empty file for no model at all
    try:
        processor.LoadFromSerializedProto(model.read_bytes())
    except RuntimeError:
        raise ValueError(f"{model}: must be a sentencepiece model, is not") from None
    return lambda line: " ".join(processor.encode(line, out_type=str))


def add_pieces_options(parser: ArgumentParser) -> None:
    """Let a script take either --codes or --model."""
    files = parser.add_mutually_exclusive_group(required=True)
    files.add_argument("--codes", type=Path, help="of subword-nmt learn-bpe")
    files.add_argument("--model", type=Path, help="of sentencepiece")


def open_pieces(codes: Path | None, model: Path | None) -> Callable[[str], str]:
    """Return what cuts a line by the one of the two files that is given."""
    return byte_pairs(codes) if codes else sentence_pieces(model)

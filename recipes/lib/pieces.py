"""What scripts that cut text into pieces are given: byte pairs, or sentencepiece's model."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable
from pathlib import Path

from fairseq_aiayn.text.pieces import byte_pairs, sentence_pieces


def add_pieces_options(parser: ArgumentParser) -> None:
    """Let a script take either --codes or --model."""
    files = parser.add_mutually_exclusive_group(required=True)
    files.add_argument("--codes", type=Path, help="of subword-nmt learn-bpe")
    files.add_argument("--model", type=Path, help="of sentencepiece")


def open_pieces(codes: Path | None, model: Path | None) -> Callable[[str], str]:
    """Return what cuts a line by the one of the two files that is given."""
    return byte_pairs(codes) if codes else sentence_pieces(model)

"""Plain text cut into the pieces that a model reads, as the recipes cut what it was trained on."""

from __future__ import annotations

import io
import unicodedata
from collections.abc import Callable
from contextlib import redirect_stderr
from dataclasses import dataclass
from pathlib import Path

from sacremoses import MosesPunctNormalizer, MosesTokenizer
from sentencepiece import SentencePieceProcessor
from subword_nmt.apply_bpe import BPE

Cut = Callable[[str], str]


@dataclass(frozen=True)
class Cutter:
    """Byte pairs of Moses' tokens, of text that is normalised first or not; word pieces; or,
    without either file, text that is in pieces already."""

    codes: Path | None = None
    model: Path | None = None
    normalize: bool = False

    def cut(self, text: str, language: str) -> str:
        """Pieces with a space between; OSError or ValueError, naming a file of no use."""
        if self.codes:
            return byte_pairs(self.codes)(moses_tokens(text, language, self.normalize))
        return word_pieces(self.model)(text) if self.model else text


def moses_tokens(text: str, language: str, normalize: bool) -> str:
    """What recipes/lib/moses.py makes of a line."""
    if normalize:
        normalized = MosesPunctNormalizer(lang=language).normalize(f"{text}\n")
        text = "".join(" " if unicodedata.category(c).startswith("C") else c for c in normalized)
    return MosesTokenizer(lang=language).tokenize(
        text, aggressive_dash_splits=True, return_str=True
    )


def byte_pairs(codes: Path) -> Cut:
    """What subword-nmt apply-bpe does to a line."""
    try:
        # It tells what is wrong, then exits.
        with codes.open(encoding="utf-8", newline="\n") as stream, redirect_stderr(io.StringIO()):
            bpe = BPE(stream)
    except (ValueError, SystemExit):
        raise ValueError(f"{codes}: must be codes of subword-nmt learn-bpe, is not") from None
    return bpe.process_line


def word_pieces(model: Path) -> Cut:
    """What sentencepiece does to a line."""
    try:
        processor = SentencePieceProcessor(model_proto=model.read_bytes())
    except RuntimeError:
        raise ValueError(f"{model}: must be a sentencepiece model, is not") from None
    return lambda line: " ".join(processor.encode(line, out_type=str))

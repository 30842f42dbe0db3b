"""Plain text cut into the pieces that a model reads, as the recipes cut what it was trained on."""

from __future__ import annotations

from dataclasses import dataclass
from html import unescape
from pathlib import Path

from fairseq_aiayn.corpus.moses import moses_tokenizer
from fairseq_aiayn.corpus.pieces import byte_pairs, sentence_pieces


@dataclass(frozen=True)
class Segmenter:
    """Byte pairs of Moses' tokens, of text that is normalised first or not; word pieces; or,
    without either file, text that is in pieces already."""

    codes: Path | None = None
    model: Path | None = None
    normalize: bool = False

    def shown(self, piece: str) -> str:
        """A piece as its reader knows it: Moses writes &apos; and the like."""
        return unescape(piece) if self.codes else piece

    def cut(self, text: str, language: str) -> str:
        """Pieces with a space between; OSError or ValueError, naming a file of no use."""
        if self.codes:
            return byte_pairs(self.codes)(moses_tokenizer(language, self.normalize)(text))
        return sentence_pieces(self.model)(text) if self.model else text

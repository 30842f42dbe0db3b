"""Cut plain text into the pieces that a model reads, as the recipes cut its training text."""

from __future__ import annotations

from dataclasses import dataclass
from html import unescape
from pathlib import Path

from fairseq_aiayn.corpus.moses import moses_tokenizer
from fairseq_aiayn.corpus.pieces import byte_pairs, sentence_pieces


@dataclass(frozen=True)
class Segmenter:
    """How text is cut: byte pairs after Moses tokenization, with or without normalization (codes);
    word pieces (model); or, without either file, at spaces: the text is in pieces already."""

    codes: Path | None = None
    model: Path | None = None
    normalize: bool = False

    def shown(self, piece: str) -> str:
        """Return a piece as a reader expects it, without Moses' escapes such as &apos;."""
        return unescape(piece) if self.codes else piece

    def cut(self, text: str, language: str) -> str:
        """Return the pieces separated by spaces; raises OSError or ValueError for a bad file."""
        if self.codes:
            return byte_pairs(self.codes)(moses_tokenizer(language, self.normalize)(text))
        return sentence_pieces(self.model)(text) if self.model else text

"""Plain text to a model's pieces and back, as the model's training text was made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fairseq_aiayn.corpus.pieces import byte_pairs, sentence_pieces
from fairseq_aiayn.files.json_fields import dataclass_of, read_json
from fairseq_aiayn.messages import optional

BYTE_PAIRS, WORD_PIECES, NONE = "byte_pairs", "word_pieces", "none"
PIECES_FILES = {BYTE_PAIRS: "codes", WORD_PIECES: "pieces.model", NONE: None}
NOTE = "text.json"  # beside the binaries of a recipe: how their text was made
WORD_BEGINS = "▁"  # how sentencepiece marks the beginning of a word
CONTINUED = "@@ "  # how subword-nmt marks that a word goes on


@dataclass(frozen=True)
class TextProcessing:
    """How a model's text is cut.

    pieces: byte pairs after Moses tokens, sentencepiece's pieces of plain text, or none, where the
    text is in pieces already; normalize and lowercase: what is done before Moses tokens.
    """

    pieces: str
    normalize: bool = False
    lowercase: bool = False

    def __post_init__(self) -> None:
        if self.pieces not in PIECES_FILES:
            raise ValueError(
                f"'pieces' must be one of {', '.join(PIECES_FILES)}, is {self.pieces!r}"
            )

    def cutter(self, language: str, file: Path | None) -> Callable[[str], list[str]]:
        """Return the function that cuts a sentence; `file` has the byte pairs or the word pieces.

        Raises OSError or ValueError if the file cannot be read, and ValueError if a package is
        missing.
        """
        if self.pieces == NONE:
            return str.split
        if self.pieces == WORD_PIECES:
            cut = sentence_pieces(file)
            return lambda sentence: cut(sentence).split()
        with optional("sacremoses"):
            from fairseq_aiayn.corpus.moses import moses_tokenizer
        tokenize = moses_tokenizer(language, self.normalize, self.lowercase)
        segment = byte_pairs(file)
        return lambda sentence: segment(tokenize(sentence)).split()

    def joiner(self, language: str) -> Callable[[list[str]], str]:
        """Return the function that makes plain text of pieces of a language."""
        if self.pieces == NONE:
            return " ".join
        if self.pieces == WORD_PIECES:
            return lambda pieces: "".join(pieces).replace(WORD_BEGINS, " ").strip()
        with optional("sacremoses"):
            from sacremoses import MosesDetokenizer
        detokenize = MosesDetokenizer(lang=language).detokenize
        return lambda pieces: detokenize(f"{' '.join(pieces)} ".replace(CONTINUED, "").split())


def text_of_files(
    codes: Path | None, model: Path | None, normalize: bool = False, lowercase: bool = False
) -> tuple[TextProcessing, Path | None]:
    """Return how text is cut by byte pairs (codes), by word pieces (model), or by neither, and the
    file that cuts it."""
    kind = BYTE_PAIRS if codes else WORD_PIECES if model else NONE
    return TextProcessing(kind, normalize, lowercase), codes or model


def text_of_data(data: Path) -> tuple[TextProcessing, Path | None]:
    """Return how the text of a recipe's data directory was made, and the file that cut it.

    Without the recipe's note, a parser's pieces.model is recognized, and other text is taken to be
    in pieces already. Raises OSError or ValueError for a note that cannot be read.
    """
    note = data / NOTE
    if note.exists():
        text = dataclass_of(read_json(note), TextProcessing, note)
    else:
        has_model = (data / PIECES_FILES[WORD_PIECES]).exists()
        text = TextProcessing(WORD_PIECES if has_model else NONE)
    name = PIECES_FILES[text.pieces]
    return text, data / name if name else None

"""Plain text becomes the pieces that fairseq-interactive makes of it, and pieces the text."""

from __future__ import annotations

import io
import json
import random
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import pytest
from fairseq.data.encoders.moses_tokenizer import MosesTokenizer
from fairseq.data.encoders.sentencepiece_bpe import SentencepieceBPE
from fairseq.data.encoders.subword_nmt_bpe import SubwordNMTBPE
from sentencepiece import SentencePieceTrainer
from small_models import SENTENCES, write_codes

from fairseq_aiayn.inference.folder import (
    BYTE_PAIRS,
    NONE,
    WORD_PIECES,
    TextProcessing,
    text_of_data,
)

LINES = (
    *SENTENCES,
    "  two  spaces,\ta tab and\u00a0a no-break space ",
    "Zürich's 漢字 (“quotes” – dashes) & <unk> @@ x@@ ▁y",
    "",
)


@pytest.fixture(scope="module")
def codes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pieces") / "codes"
    write_codes(path)
    return path


@pytest.fixture(scope="module")
def word_pieces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    model = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES),
        model_writer=model,
        model_type="bpe",
        vocab_size=70,
        minloglevel=2,
    )
    path = tmp_path_factory.mktemp("pieces") / "pieces.model"
    path.write_bytes(model.getvalue())
    return path


def moses(language: str) -> MosesTokenizer:
    """fairseq's --tokenizer moses for one language."""
    both = {"source_lang": language, "target_lang": language}
    return MosesTokenizer(Namespace(**both, moses_no_dash_splits=False, moses_no_escape=False))


def shuffled(lines: list[list[str]]) -> list[list[str]]:
    """Pieces as a model may write them: any order, so that words and quotes do not match."""
    pieces = [piece for line in lines for piece in line]
    rng = random.Random(1)
    return [rng.choices(pieces, k=length) for length in (1, 5, 30, 30)]


@pytest.mark.parametrize("language", ["en", "de", "fr"])
def test_byte_pairs_are_cut_and_joined_as_by_fairseq(codes: Path, language: str) -> None:
    bpe = SubwordNMTBPE(Namespace(bpe_codes=str(codes), bpe_separator="@@"))
    text = TextProcessing(BYTE_PAIRS)
    cut, join = text.cutter(language, codes), text.joiner(language)
    lines = [bpe.encode(moses(language).encode(line)).split() for line in LINES]
    assert [cut(line) for line in LINES] == lines
    for pieces in [*lines, *shuffled(lines)]:
        assert join(pieces) == moses(language).decode(bpe.decode(" ".join(pieces)))


def test_word_pieces_are_cut_and_joined_as_by_fairseq(word_pieces: Path) -> None:
    bpe = SentencepieceBPE(
        Namespace(
            sentencepiece_model=str(word_pieces),
            sentencepiece_enable_sampling=False,
            sentencepiece_alpha=None,
        )
    )
    text = TextProcessing(WORD_PIECES)
    cut, join = text.cutter("en", word_pieces), text.joiner("fr")
    lines = [bpe.encode(line).split() for line in LINES]
    assert [cut(line) for line in LINES] == lines
    for pieces in [*lines, *shuffled(lines)]:
        assert join(pieces) == bpe.decode(" ".join(pieces))


def test_text_in_pieces_stays_as_it_is() -> None:
    text = TextProcessing(NONE)
    assert text.cutter("en", None)(" the  ca@@ t\u2028") == ["the", "ca@@", "t"]
    assert text.joiner("en")(["the", "ca@@", "t"]) == "the ca@@ t"


def test_the_recipes_note_is_found_beside_the_data(tmp_path: Path) -> None:
    assert text_of_data(tmp_path) == (TextProcessing(NONE), None)
    (tmp_path / "pieces.model").touch()
    assert text_of_data(tmp_path) == (TextProcessing(WORD_PIECES), tmp_path / "pieces.model")
    note = {"pieces": "byte_pairs", "normalize": True, "lowercase": False}
    (tmp_path / "text.json").write_text(json.dumps(note))
    assert text_of_data(tmp_path) == (TextProcessing(BYTE_PAIRS, True), tmp_path / "codes")


def test_text_is_cut_as_the_recipes_cut_it(tmp_path: Path) -> None:
    text = "„Gut-Gemeint“,  don't say: 3.5\u00a0% of it's\u2028rosy-red\u200b!"
    codes = tmp_path / "codes"
    codes.write_text("#version: 0.2\ng u\nd o\nr o\ns a\n", encoding="utf-8")
    lines = f"{text}\n".encode()
    moses = ("moses", "--language", "de", "--normalize", "--lowercase")
    for words in (moses, ("subwords", "apply", "--codes", codes)):
        command = [sys.executable, "-m", f"fairseq_aiayn.corpus.{words[0]}", *words[1:]]
        lines = subprocess.run(command, input=lines, check=True, capture_output=True).stdout
    found = TextProcessing(BYTE_PAIRS, normalize=True, lowercase=True).cutter("de", codes)(text)
    assert found == lines.decode().split() and any("@@" in piece for piece in found)

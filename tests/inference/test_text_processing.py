"""Plain text becomes the pieces that fairseq-interactive makes of it, and pieces the text."""

import random
import subprocess
import sys
from argparse import Namespace

import pytest
from fairseq.data.encoders.moses_tokenizer import MosesTokenizer
from fairseq.data.encoders.sentencepiece_bpe import SentencepieceBPE
from fairseq.data.encoders.subword_nmt_bpe import SubwordNMTBPE
from small_models import SENTENCES, write_codes

from fairseq_aiayn.corpus.subwords import learn
from fairseq_aiayn.inference.folder import BYTE_PAIRS, NONE, WORD_PIECES, TextProcessing

LINES = (
    *SENTENCES,
    "  two  spaces,\ta tab and\u00a0a no-break space ",
    "Zürich's 漢字 (“quotes” – dashes) & <unk> @@ x@@ ▁y",
    "",
)


def moses(language: str) -> MosesTokenizer:
    """fairseq's --tokenizer moses for one language."""
    both = {"source_lang": language, "target_lang": language}
    return MosesTokenizer(Namespace(**both, moses_no_dash_splits=False, moses_no_escape=False))


@pytest.mark.parametrize("language", ["en", "de", "fr"])
@pytest.mark.parametrize("kind", [BYTE_PAIRS, WORD_PIECES])
def test_text_is_cut_and_joined_as_by_fairseq(kind, language, tmp_path):
    """Pieces are joined in any order, as a model may write them: words and quotes do not match."""
    file, text = tmp_path / "file", TextProcessing(kind)
    if kind == BYTE_PAIRS:
        write_codes(file)
        bpe = SubwordNMTBPE(Namespace(bpe_codes=str(file), bpe_separator="@@"))
        encode, decode = moses(language).encode, moses(language).decode
    else:
        file.write_bytes(learn(SENTENCES, 70))
        options = {"sentencepiece_enable_sampling": False, "sentencepiece_alpha": None}
        bpe = SentencepieceBPE(Namespace(sentencepiece_model=str(file), **options))
        encode = decode = str
    cut, join = text.cutter(language, file), text.joiner(language)
    lines = [bpe.encode(encode(line)).split() for line in LINES]
    assert [cut(line) for line in LINES] == lines
    draw, pieces = random.Random(1), [piece for line in lines for piece in line]
    for line in [*lines, *(draw.choices(pieces, k=length) for length in (1, 5, 30, 30))]:
        assert join(line) == decode(bpe.decode(" ".join(line)))


def test_text_in_pieces_stays_as_it_is():
    text = TextProcessing(NONE)
    assert text.cutter("en", None)(" the  ca@@ t\u2028") == ["the", "ca@@", "t"]
    assert text.joiner("en")(["the", "ca@@", "t"]) == "the ca@@ t"


def test_text_is_cut_as_the_recipes_cut_it(tmp_path):
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

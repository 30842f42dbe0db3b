"""Text becomes the pieces and numbers that fairseq-interactive makes of it, and pieces the text."""

import random
from argparse import Namespace

import pytest
import torch
from fairseq.data import Dictionary
from fairseq.data.encoders.moses_tokenizer import MosesTokenizer
from fairseq.data.encoders.sentencepiece_bpe import SentencepieceBPE
from fairseq.data.encoders.subword_nmt_bpe import SubwordNMTBPE
from faults import fault_of
from small_models import SENTENCES, write_codes

from fairseq_aiayn.corpus.moses import moses_tokenizer
from fairseq_aiayn.corpus.subwords import byte_pairs, learn
from fairseq_aiayn.inference.description import (
    END,
    PADDING,
    UNKNOWN,
    TextProcessing,
    read_vocabulary,
)

# fairseq-preprocess pads to a multiple; special types may be replaced, and so may others
DICTIONARY = (
    "the 9\nca@@ 3\nmadeupword0000 0\n<unk> 2 #fairseq:overwrite\nb 2\n"
    "the 7 #fairseq:overwrite\na\u2028b 2\nc\x85d 1\ne f 4\n\u00a0g 1\n"
)
LINES = (
    *SENTENCES,
    "  two  spaces,\ta tab and\u00a0a no-break space ",
    "Zürich's 漢字 (“quotes” – dashes) & <unk> @@ x@@ ▁y",
    "",
)


def test_numbers_and_pieces_are_fairseqs(tmp_path):
    path = tmp_path / "dict.txt"
    path.write_text(DICTIONARY)
    mine, stock = read_vocabulary(path), Dictionary.load(str(path))
    assert mine.types == tuple(stock.symbols) and len(mine) == len(stock)
    assert (PADDING, END, UNKNOWN) == (stock.pad(), stock.eos(), stock.unk())
    pieces = ["b", "the", "</s>", "a", "nowhere", "<s>", "c", "<unk>", "ca@@"]
    tokens = stock.encode_line(" ".join(pieces), add_if_not_exist=False).tolist()
    assert mine.numbers(pieces) == tokens
    every = [number for number in range(len(stock)) if " " not in stock[number]]
    assert mine.pieces(every) == stock.string(torch.tensor(every)).split(" ")
    path.write_text(f"the 5\nno count\n{DICTIONARY}")
    rule = f"{path}:2: expected a word and its count, got 'no count'"
    assert fault_of(read_vocabulary, path) == rule
    for word in ("the", "</s>"):  # fairseq refuses them, too
        path.write_text(f"the 5\n{word} 4\n")
        rule = f"{path}:2: {word!r} is in the file or special already"
        assert fault_of(read_vocabulary, path) == rule
        with pytest.raises(RuntimeError, match=word):
            Dictionary.load(str(path))


def moses(language: str) -> MosesTokenizer:
    both = {"source_lang": language, "target_lang": language}
    return MosesTokenizer(Namespace(**both, moses_no_dash_splits=False, moses_no_escape=False))


@pytest.mark.parametrize("language", ["en", "de", "fr"])
@pytest.mark.parametrize("kind", ["byte_pairs", "word_pieces"])
def test_text_is_cut_and_joined_as_by_fairseq(kind, language, tmp_path):
    """Pieces are joined in any order, as a model may write them: words and quotes do not match."""
    file, text = tmp_path / "file", TextProcessing(kind)
    if kind == "byte_pairs":
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
    text = TextProcessing("none")
    assert text.cutter("en", None)(" the  ca@@ t\u2028") == ["the", "ca@@", "t"]
    assert text.joiner("en")(["the", "ca@@", "t"]) == "the ca@@ t"


def test_text_is_cut_as_the_recipes_cut_it(tmp_path):
    text = "„Gut-Gemeint“,  don't say: 3.5\u00a0% of it's\u2028rosy-red\u200b!"
    codes = tmp_path / "codes"
    codes.write_text("#version: 0.2\ng u\nd o\nr o\ns a\n", encoding="utf-8")
    tokens = moses_tokenizer("de", normalize=True, lowercase=True)(text)
    found = TextProcessing("byte_pairs", normalize=True, lowercase=True).cutter("de", codes)(text)
    assert found == byte_pairs(codes)(tokens).split() and any("@@" in piece for piece in found)

"""Subwords are those of subword-nmt and SentencePiece."""

import io
import random

import pytest
import sentencepiece
from subword_nmt.apply_bpe import BPE
from subword_nmt.learn_bpe import learn_bpe

from fairseq_aiayn.corpus import subwords
from fairseq_aiayn.corpus.subwords import byte_pairs, learn, sample, sentence_pieces

PAIRS = 70
SYLLABLES = ["ba", "lo", "ti", "grü", "ßen", "s", "x", "ck", "œu", "&amp;", "€", "\U0001f600"]
ODD = ["unsn  ßß grüßt\u2028\u00a0x", "", "balo  tigrü", "\u200b", "lolo"]


def sentences(language: str) -> list[str]:
    """Return sentences of invented words, some of them frequent."""
    chance = random.Random(language)
    words = ["".join(chance.choices(SYLLABLES, k=chance.randint(1, 4))) for _ in range(40)]
    return [" ".join(chance.choices(words, k=chance.randint(1, 9))) for _ in range(PAIRS)]


TEXTS = [sentences("en"), sentences("de")]
LINES = [*TEXTS[0], *TEXTS[1]]


@pytest.fixture
def files(tmp_path):
    paths = [tmp_path / "train.en", tmp_path / "train.de"]
    for path, lines in zip(paths, TEXTS, strict=True):
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return paths


@pytest.fixture
def codes(tmp_path):
    with (tmp_path / "codes").open("w", encoding="utf-8") as output:
        learn_bpe(io.StringIO("\n".join(LINES)), output, 60)
    return tmp_path / "codes"


def test_byte_pairs_are_those_of_subword_nmt(codes):
    cut = byte_pairs(codes)
    with codes.open(encoding="utf-8") as stream:
        bpe = BPE(stream)
    expected = [bpe.process_line(line) for line in LINES + ODD]
    assert [cut(line) for line in LINES + ODD] == expected and "@@ " in "".join(expected)


@pytest.mark.parametrize(
    ("read", "content"),
    [(byte_pairs, text) for text in (b"", b"codes\n", b"#version: 9.9\na b\n", b"\xe9 a\n")]
    + [(sentence_pieces, b""), (sentence_pieces, b"codes\n")],
)
def test_a_file_that_cuts_nothing_is_named(read, content, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"^{path}: expected "):
        read(path)


def test_a_model_has_the_pieces_that_sentencepiece_learns(tmp_path):
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES),
        model_prefix=str(tmp_path / "theirs"),
        model_type="bpe",
        vocab_size=60,
        character_coverage=1.0,
        minloglevel=1,
    )
    theirs = sentence_pieces(tmp_path / "theirs.model")
    (tmp_path / "model").write_bytes(learn(LINES, 60))
    cut = sentence_pieces(tmp_path / "model")
    for line in LINES:
        assert cut(line) == theirs(line)
        assert cut(line).replace(" ", "").replace("▁", " ").removeprefix(" ") == line
    assert learn(LINES, 60) == (tmp_path / "model").read_bytes(), "the same text, the same bytes"
    assert 60 < sentencepiece.SentencePieceProcessor(model_proto=learn(LINES, 32_000)).vocab_size()
    with pytest.raises(ValueError, match="sentencepiece: .*smaller than required_chars"):
        learn(LINES, 9)


@pytest.mark.parametrize(("size", "step"), [(1, 70), (34, 3), (35, 2), (999, 1)])
def test_the_sample_is_every_kth_pair(files, capsys, size, step):
    pairs = list(zip(*TEXTS, strict=True))[::step]
    assert list(sample(files, size)) == [line for pair in pairs for line in pair]
    assert capsys.readouterr().err == f"learning from {len(pairs)} of 70 pairs\n"
    with pytest.raises(ValueError, match="at least 1 pair, got"):
        next(sample(files, 1 - size))


@pytest.mark.parametrize("read", [byte_pairs, sentence_pieces])
def test_the_script_learns_and_cuts_line_by_line(
    read, codes, files, tmp_path, filtered, monkeypatch
):
    model = tmp_path / "model"
    options = ("--vocabulary", "60", "--sample", "35", "--output", str(model))
    filtered(subwords, "", "learn", "--text", *map(str, files), *options)
    assert model.read_bytes() == learn(sample(files, 35), 60)
    monkeypatch.setattr(subwords, "CHUNK_LINES", 30)
    option, file = ("--codes", codes) if read is byte_pairs else ("--model", model)
    text = "".join(f"{line}\n" for line in LINES + ODD)
    written = filtered(subwords, text, "apply", option, str(file), "--workers", "2")
    assert written == "".join(f"{read(file)(line)}\n" for line in LINES + ODD)

"""Training text becomes clean tokens, as Moses makes them, and subwords, as subword-nmt and
SentencePiece make them."""

import gzip
import io
import random
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import sentencepiece
from click.testing import CliRunner
from faults import fault_of
from hypothesis import given
from hypothesis import strategies as st
from sacremoses.cli import cli
from subword_nmt.apply_bpe import BPE
from subword_nmt.learn_bpe import learn_bpe

from fairseq_aiayn.corpus import cleaning, moses, subwords
from fairseq_aiayn.corpus.cleaning import Settings, clean, clean_corpus
from fairseq_aiayn.corpus.manifest import Text
from fairseq_aiayn.corpus.subwords import byte_pairs, learn, sample, sentence_pieces


@pytest.fixture
def filtered(
    monkeypatch: pytest.MonkeyPatch, give: Callable[..., None], capsysbinary
) -> Callable[..., str]:
    """Return a function that gives a module a text: what it writes."""

    def run(module: ModuleType, text: str | bytes, *options: str) -> str:
        give(text)
        monkeypatch.setattr(sys, "argv", [module.__file__, *options])
        module.main()
        return capsysbinary.readouterr().out.decode()

    return run


LANGUAGES = ("en", "de")
PLAIN = Settings(LANGUAGES, "none", False, max_length=6, max_ratio=2.0)
MOSES = Settings(LANGUAGES, "moses", True, max_length=20, max_ratio=None)
TEXTS = (Text("news", "news.{language}", sentences=30), Text("web", "web.{language}.gz"))


SIGNS = [
    *"aZb .,;:!?-'\"`()[]{}<>|&%$#@/\\",
    *"„“”–—’‘´…«»\u00a0éß",
    *("nº", "3", "17", "Mr.", "U.S."),
]


@pytest.mark.filterwarnings("ignore:'get_text_stream' is deprecated")  # sacremoses uses it
@pytest.mark.parametrize("language", ["en", "de", "fr"])
@pytest.mark.parametrize("normalize", [False, True])
def test_tokens_are_those_of_the_sacremoses_command(language, normalize):
    """Of nonsense that is rich in what the rules of Moses are about."""
    chance = random.Random(1)
    lines = ["".join(chance.choices(SIGNS, k=chance.randint(0, 30))) for _ in range(300)]
    commands = ["normalize"] * normalize + ["tokenize", "-a"]
    result = CliRunner().invoke(cli, ["-l", language, *commands], input="\n".join(lines) + "\n")
    tokenize = moses.moses_tokenizer(language, normalize)
    assert [tokenize(line) for line in lines] == result.stdout.split("\n")[:-1]


def test_a_line_stays_a_line(filtered):
    """Also one without a character that is left, and with --lowercase, for Multi30k's lc.norm.tok,
    hyphenated words stay whole."""
    lines = "Er sagt: „Nein.“\n\nA\u2028b\x85c\x0bd\u00ade\x07f\ufeff \ue000\n\u200b\nSaftig-Grünes"
    tokens = "Er sagt : &quot; Nein &quot; .\n\nA b c d e f\n\nSaftig @-@ Grünes\n"
    options = ("--language", "de", "--normalize")
    assert filtered(moses, lines, *options) == tokens
    tokens = tokens.lower().replace(" @-@ ", "-")
    assert filtered(moses, lines, *options, "--lowercase") == tokens
    assert filtered(moses, "Wort\u00adteil", *options[:2]) == "Wort \u00ad teil\n"


@given(*(st.integers(0, 8),) * 2, st.integers(1, 6), st.sampled_from([None, 1.0, 1.5, 2.0]))
def test_a_pair_is_kept_by_the_lengths_of_its_sides(source, target, max_length, max_ratio):
    sides = tuple(" ".join(["w"] * length) for length in (source, target))
    settings = Settings(LANGUAGES, "none", False, max_length, max_ratio)
    kept, counts = clean([tuple(side.encode() for side in sides)], settings)
    shorter, longer = sorted((source, target))
    reasons = {
        "empty": not shorter,
        "too long": longer > max_length,
        "ratio": max_ratio is not None and longer > max_ratio * shorter,
        "kept": True,
    }
    reason = next(name for name, applies in reasons.items() if applies)
    assert kept == [sides] * (reason == "kept")
    assert counts == {"read": 1, reason: 1}


@pytest.mark.parametrize(
    ("tokenizer", "source", "target", "kept"),
    [
        ("moses", b"(a) b c", b"a b c d", "too long"),  # lengths are those after tokenization
        ("moses", b"caf\xe9", b"a", "not UTF-8"),
        ("moses", b"a", b"w" * 1000, ("a", "w" * 1000)),
        ("moses", b"a", b"w" * 1001, "too long"),
        # SentencePiece makes no piece of a word of control characters alone
        ("none", "\u3000a|b &\u2028\x85 [c]\r".encode(), "„d“ e ".encode(), ("a|b & [c]", "„d“ e")),
        ("none", "c\u200b \x01".encode(), b"d", ("c\u200b", "d")),
        ("none", "\u200b".encode(), b"a", "empty"),
    ],
)
def test_what_is_kept_of_a_pair(tokenizer, source, target, kept):
    settings = Settings(LANGUAGES, tokenizer, False, max_length=4, max_ratio=None)
    pairs, counts = clean([(source, target)], settings)
    assert pairs == ([kept] if isinstance(kept, tuple) else [])
    assert isinstance(kept, tuple) or counts[kept] == 1


@pytest.fixture
def corpus(tmp_path, monkeypatch) -> Path:
    """Two texts, which several tasks clean."""
    monkeypatch.setattr(cleaning, "CHUNK_PAIRS", 10)
    chance = random.Random(7)
    for name, lines, opened in (("news.{}", 30, open), ("web.{}.gz", 11, gzip.open)):
        for language in LANGUAGES:
            with opened(tmp_path / name.format(language), "wb") as stream:
                for number in range(lines):
                    words = [f"{language}-{number}."] * chance.randint(0, 8)
                    stream.write(" ".join(words).encode() + b"\n")
    return tmp_path


def make(corpus: Path, settings: Settings = PLAIN, workers: int = 2):
    return clean_corpus(TEXTS, corpus, settings, corpus / "tokens", workers)


@pytest.mark.parametrize(("settings", "workers"), [(PLAIN, 1), (MOSES, 2)])
def test_tokens_are_those_of_the_texts_one_after_the_other(corpus, settings, workers):
    counts = make(corpus, settings, workers)
    kept = []
    for name, opened in (("news.{}", open), ("web.{}.gz", gzip.open)):
        sides = [opened(corpus / name.format(language), "rb").readlines() for language in LANGUAGES]
        pairs = list(zip(*sides, strict=True))
        expected, counted = clean(pairs, settings)
        kept += expected
        assert counts[name.partition(".")[0]] == counted
        assert sum(counted.values()) == 2 * counted["read"] == 2 * len(pairs)
    for language, lines in zip(LANGUAGES, zip(*kept, strict=True), strict=True):
        text = (corpus / "tokens" / f"train.{language}").read_text(encoding="utf-8")
        assert text == "".join(f"{line}\n" for line in lines)
    assert len(list((corpus / "tokens").iterdir())) == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda lines: lines[:-7], "news: expected parallel lines, got only 23 in de"),
        (lambda lines: [b"caf\xe9", *lines[1:]], "news: expected UTF-8, got 1 of 30 pairs"),
        (lambda lines: [b""] * 30, "expected pairs to keep, got none"),
    ],
)
def test_a_text_that_cannot_be_right_ends_with_its_name_and_nothing(corpus, change, message):
    path = corpus / "news.de"
    path.write_bytes(b"".join(line + b"\n" for line in change(path.read_bytes().splitlines())))
    for language in LANGUAGES:
        (corpus / f"web.{language}.gz").write_bytes(gzip.compress(b"\n"))
    assert fault_of(make, corpus).startswith(message)
    assert not list((corpus / "tokens").iterdir())


def test_the_counts_are_a_table():
    counts = {"news": Counter(read=30, kept=28, ratio=2), "web": Counter(read=1, empty=1)}
    assert [line.split() for line in cleaning.table(counts).splitlines()] == [
        ["pairs", "read", "kept", "empty", "too", "long", "ratio", "not", "UTF-8"],
        ["news", "30", "28", "0", "0", "2", "0"],
        ["web", "1", "0", "1", "0", "0", "0"],
        ["all", "31", "28", "1", "0", "2", "0"],
    ]


PAIRS = 70
SYLLABLES = ["ba", "lo", "ti", "grü", "ßen", "s", "x", "ck", "œu", "&amp;", "€", "\U0001f600"]
ODD = ["unsn  ßß grüßt\u2028\u00a0x", "", "balo  tigrü", "\u200b", "lolo"]


def sentences(language: str) -> list[str]:
    """Return sentences of invented words, some of them frequent."""
    chance = random.Random(language)
    words = ["".join(chance.choices(SYLLABLES, k=chance.randint(1, 4))) for _ in range(40)]
    return [" ".join(chance.choices(words, k=chance.randint(1, 9))) for _ in range(PAIRS)]


SIDES = [sentences("en"), sentences("de")]
LINES = [*SIDES[0], *SIDES[1]]


@pytest.fixture
def files(tmp_path):
    paths = [tmp_path / "train.en", tmp_path / "train.de"]
    for path, lines in zip(paths, SIDES, strict=True):
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
    pairs = list(zip(*SIDES, strict=True))[::step]
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

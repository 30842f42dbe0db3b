"""Subword pieces of a corpus in shards are those of subword-nmt and sentencepiece."""

import io
import random
from pathlib import Path

import pytest
import sentencepiece
from subword_nmt import learn_joint_bpe_and_vocab
from subword_nmt.apply_bpe import BPE
from subword_nmt.learn_bpe import learn_bpe

from fairseq_aiayn.corpus import apply_pieces, count_words, learn_word_pieces, pieces, shards

LANGUAGES = ("en", "de")
PAIRS = 70  # in 3 shards
SYLLABLES = ["ba", "lo", "ti", "grü", "ßen", "s", "x", "ck", "œu", "&amp;", "€", "\U0001f600"]


def make_text(language: str, lines: int) -> list[str]:
    """Return sentences of invented words, some of them frequent."""
    chance = random.Random(language)
    words = ["".join(chance.choices(SYLLABLES, k=chance.randint(1, 4))) for _ in range(40)]
    return [" ".join(chance.choices(words, k=chance.randint(1, 9))) for _ in range(lines)]


@pytest.fixture
def tokens(tmp_path) -> Path:
    """A corpus in three shards, beside train.en and train.de with the same text."""
    directory = tmp_path / "tokens"
    directory.mkdir()
    text = {language: make_text(language, PAIRS) for language in LANGUAGES}
    for number, (start, stop) in enumerate(((0, 30), (30, 31), (31, PAIRS))):
        part = {language: lines[start:stop] for language, lines in text.items()}
        name = shards.shard_name(1, "news", number)
        shards.write_shard(directory, name, part, {"start": start}, {"kept": stop - start})
    for language, lines in text.items():
        path = tmp_path / f"train.{language}"
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return directory


def plain_text(tokens: Path) -> str:
    return "".join(
        (tokens.parent / f"train.{language}").read_text(encoding="utf-8") for language in LANGUAGES
    )


def learn_codes(text: str, path: Path, symbols: int = 60) -> Path:
    with path.open("w", encoding="utf-8") as output:
        learn_bpe(io.StringIO(text), output, symbols)
    return path


def words_of(tokens: Path, workers: int) -> str:
    counts = count_words.count_words(tokens, LANGUAGES, workers)
    return b"".join(count_words.dictionary(counts, min_count=1)).decode()


# --- words ---


@pytest.mark.parametrize("workers", [1, 2])
def test_codes_learnt_from_the_words_are_those_learnt_from_the_text(tokens, tmp_path, workers):
    from_words = io.StringIO()
    learn_bpe(io.StringIO(words_of(tokens, workers)), from_words, 60, is_dict=True)
    codes = learn_codes(plain_text(tokens), tmp_path / "codes").read_text(encoding="utf-8")
    assert from_words.getvalue() == codes and codes.count("\n") == 61
    inputs = [str(tmp_path / f"train.{language}") for language in LANGUAGES]
    joint = ["--input", *inputs, "--output", str(tmp_path / "joint"), "--symbols", "60"]
    joint += ["--write-vocabulary", str(tmp_path / "vocab.en"), str(tmp_path / "vocab.de")]
    parser = learn_joint_bpe_and_vocab.create_parser()
    learn_joint_bpe_and_vocab.learn_joint_bpe_and_vocab(parser.parse_args(joint))
    assert (tmp_path / "joint").read_text(encoding="utf-8") == codes


def test_words_are_sorted_by_count_then_by_themselves(tmp_path):
    texts = {"en": ["b a b", "é z"], "de": ["z a é c"]}
    shards.write_shard(tmp_path, shards.shard_name(1, "news", 0), texts, {}, {"kept": 2})
    assert words_of(tmp_path, 1).split("\n") == ["a 2", "b 2", "z 2", "é 2", "c 1", ""]


def test_rare_words_can_be_left_out():
    counts = {b"often": 5, b"twice": 2, b"once": 1}
    assert list(count_words.dictionary(counts, min_count=2)) == [b"often 5\n", b"twice 2\n"]
    for min_count, rule in ((0, "must be at least 1, got 0"), (6, "no word is seen 6 times")):
        with pytest.raises(ValueError, match=rule):
            list(count_words.dictionary(counts, min_count))


def test_counting_needs_shards(tmp_path):
    with pytest.raises(ValueError, match=r"must hold shards \(NAME.done\), has none"):
        count_words.count_words(tmp_path, LANGUAGES, 1)


# --- byte pairs ---


def subword_nmt_pieces(codes: Path, text: str) -> str:
    """Return what `subword-nmt apply-bpe` prints."""
    with codes.open(encoding="utf-8") as stream:
        bpe = BPE(stream)
    return "".join(bpe.process_line(line) for line in io.StringIO(text, newline="\n"))


@pytest.mark.parametrize("cached", [3, 200_000])
def test_byte_pairs_are_those_of_subword_nmt(tokens, tmp_path, monkeypatch, cached):
    monkeypatch.setattr(pieces, "CACHED_WORDS", cached)
    text = plain_text(tokens) + "unsn  ßß grüßt\u2028\u00a0x\n\n"
    codes = learn_codes(plain_text(tokens), tmp_path / "codes")
    cut = pieces.byte_pairs(codes)
    ours = "".join(f"{cut(line)}\n" for line in text.split("\n")[:-1])
    assert ours == subword_nmt_pieces(codes, text) and "@@ " in ours


def test_the_words_that_are_remembered_are_bounded(tokens, tmp_path, monkeypatch):
    made = []

    class Watched(BPE):
        def __init__(self, codes):
            super().__init__(codes)
            made.append(self)

    monkeypatch.setattr("subword_nmt.apply_bpe.BPE", Watched)
    cut = pieces.byte_pairs(learn_codes(plain_text(tokens), tmp_path / "codes"))
    cut(plain_text(tokens).replace("\n", " "))
    assert len(made[0].cache) <= 1


# --- the corpus ---


def apply(tokens: Path, codes: Path, output: Path, workers: int = 2) -> dict[str, bytes]:
    file = apply_pieces.read_pieces_file(codes, None)
    apply_pieces.apply_pieces(tokens, LANGUAGES, file, output, workers)
    return {path.name: path.read_bytes() for path in output.iterdir()}


def expected(tokens: Path, codes: Path) -> dict[str, bytes]:
    paths = [tokens.parent / f"train.{language}" for language in LANGUAGES]
    return {
        path.name: subword_nmt_pieces(codes, path.read_text(encoding="utf-8")).encode()
        for path in paths
    }


@pytest.mark.parametrize("workers", [1, 2])
def test_the_whole_corpus_is_cut_and_only_the_whole_stays(tokens, tmp_path, workers):
    codes = learn_codes(plain_text(tokens), tmp_path / "codes")
    assert apply(tokens, codes, tmp_path / "pieces", workers) == expected(tokens, codes)


def interrupt(monkeypatch, tokens: Path, codes: Path, output: Path) -> None:
    """Leave what a run leaves that is killed before the shards are joined."""
    with monkeypatch.context() as patch:
        patch.setattr(apply_pieces, "_join", lambda parts, whole: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            apply(tokens, codes, output)


def test_an_interrupted_run_goes_on_and_ends_the_same(tokens, tmp_path, monkeypatch):
    codes, output = learn_codes(plain_text(tokens), tmp_path / "codes"), tmp_path / "pieces"
    interrupt(monkeypatch, tokens, codes, output)
    first, second, third = shards.list_shards(output)
    (output / f"{first}.done").unlink()
    (output / f"{first}.en").write_bytes(b"half a li")
    (output / f"{second}.de").unlink()
    for name in (f"{first}.de.part", f"{second}.done.part", "train.en.part", "09-gone.00000.en"):
        (output / name).write_bytes(b"half")
    kept = output / f"{third}.en"
    kept.write_bytes(b"#" + kept.read_bytes()[1:])  # shows that this shard is not made again
    content = apply(tokens, codes, output)
    lines = expected(tokens, codes)["train.en"].split(b"\n")
    lines[31] = b"#" + lines[31][1:]
    assert content == {**expected(tokens, codes), "train.en": b"\n".join(lines)}


def test_other_codes_cut_all_again(tokens, tmp_path, monkeypatch):
    codes, output = learn_codes(plain_text(tokens), tmp_path / "codes"), tmp_path / "pieces"
    interrupt(monkeypatch, tokens, codes, output)
    learn_codes(plain_text(tokens), codes, symbols=5)
    assert apply(tokens, codes, output) == expected(tokens, codes)


def test_other_tokens_are_cut_again(tokens, tmp_path, monkeypatch):
    codes, output = learn_codes(plain_text(tokens), tmp_path / "codes"), tmp_path / "pieces"
    interrupt(monkeypatch, tokens, codes, output)
    name = shards.list_shards(tokens)[1]
    shards.write_shard(tokens, name, {"en": ["lolo"], "de": ["titi"]}, {"new": 1}, {"kept": 1})
    for language, word in zip(LANGUAGES, ("lolo", "titi")):
        path = tmp_path / f"train.{language}"
        lines = path.read_text(encoding="utf-8").split("\n")
        path.write_text("\n".join([*lines[:30], word, *lines[31:]]), encoding="utf-8")
    assert apply(tokens, codes, output) == expected(tokens, codes)


# --- word pieces ---


def learn_model(tokens: Path, prefix: Path, sample: int = PAIRS, vocabulary: int = 60) -> Path:
    learn_word_pieces.learn_files(tokens, LANGUAGES, vocabulary, sample, prefix)
    return prefix.with_name(f"{prefix.name}.model")


def test_a_model_has_the_pieces_that_sentencepiece_learns(tokens, tmp_path, capsys):
    learn_model(tokens, tmp_path / "out" / "ours")
    assert capsys.readouterr().err == "learning from 70 of 70 pairs\n"
    sides = [(tmp_path / f"train.{x}").read_text(encoding="utf-8").split("\n") for x in LANGUAGES]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=(line for pair in list(zip(*sides))[:-1] for line in pair),
        model_prefix=str(tmp_path / "theirs"),
        model_type="bpe",
        vocab_size=60,
        character_coverage=1.0,
        minloglevel=1,
    )
    lines = (tmp_path / "theirs.vocab").read_text(encoding="utf-8").splitlines()
    theirs = [line.split("\t")[0] for line in lines]
    model = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "out" / "ours.model"))
    assert model.id_to_piece(list(range(len(model)))) == theirs and len(theirs) == 60


def test_the_same_text_gives_the_same_model_wherever_it_is_written(tokens, tmp_path):
    first = learn_model(tokens, tmp_path / "one" / "model").read_bytes()
    assert learn_model(tokens, tmp_path / "another" / "name").read_bytes() == first
    assert {path.name for path in (tmp_path / "one").iterdir()} == {"model.model"}


@pytest.mark.parametrize(
    ("size", "step"), [(1, 70), (34, 3), (35, 2), (36, 2), (69, 2), (70, 1), (999, 1)]
)
def test_the_sample_is_every_kth_pair_of_the_whole_corpus(tokens, capsys, size, step):
    sides = [(tokens.parent / f"train.{x}").read_text(encoding="utf-8") for x in LANGUAGES]
    pairs = list(zip(*(side.split("\n")[:-1] for side in sides)))[::step]
    sentences = learn_word_pieces.sample(tokens, LANGUAGES, size)
    assert list(sentences) == [line for pair in pairs for line in pair]
    assert capsys.readouterr().err == f"learning from {len(pairs)} of 70 pairs\n"


@pytest.mark.parametrize(
    ("sample", "vocabulary", "message"),
    [
        (0, 60, "sample must be at least 1 pair, got 0"),
        (70, 9, "sentencepiece: .*Vocabulary size is smaller than required_chars"),
    ],
)
def test_what_cannot_be_learnt_is_refused(tokens, tmp_path, sample, vocabulary, message):
    with pytest.raises(ValueError, match=message):
        learn_model(tokens, tmp_path / "model", sample, vocabulary)
    assert not list(tmp_path.glob("model.*"))


def test_a_small_corpus_has_fewer_pieces_than_asked_for(tokens, tmp_path):
    model = learn_model(tokens, tmp_path / "model", vocabulary=32_000)
    assert 60 < len(sentencepiece.SentencePieceProcessor(model_file=str(model))) < 32_000


def test_word_pieces_of_the_corpus_join_to_its_text(tokens, tmp_path):
    model = learn_model(tokens, tmp_path / "model")
    file = apply_pieces.read_pieces_file(None, model)
    apply_pieces.apply_pieces(tokens, LANGUAGES, file, tmp_path / "pieces", 2)
    for language in LANGUAGES:
        cut = (tmp_path / "pieces" / f"train.{language}").read_text(encoding="utf-8")
        joined = cut.replace(" ", "").replace("\n▁", "\n").replace("▁", " ").removeprefix(" ")
        assert joined == (tmp_path / f"train.{language}").read_text(encoding="utf-8")
        assert cut.count(" ") > joined.count(" ")


@pytest.mark.parametrize("option", ["--codes", "--model"])
def test_held_out_text_keeps_its_lines(tokens, tmp_path, filtered, option):
    if option == "--codes":
        file = learn_codes(plain_text(tokens), tmp_path / "codes")
        cut = pieces.byte_pairs(file)
    else:
        file = learn_model(tokens, tmp_path / "model")
        cut = pieces.sentence_pieces(file)
    text = ["balo  tigrü", "", "ßen\u2028x", "\u200b", "lolo"]
    written = filtered(pieces, "\n".join(text), option, str(file))
    assert written == "".join(f"{cut(line)}\n" for line in text)

"""corpus.toml; texts where they lie, and the sets made of them; clean tokens, and subwords."""

import codecs
import gzip
import io
import random
import sys
import tarfile
import tracemalloc
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import mirrors
import pytest
import sentencepiece
from click.testing import CliRunner
from faults import fault_of
from hypothesis import given
from hypothesis import strategies as st
from recipe_runs import RECIPES, refusal, script
from sacremoses.cli import cli
from subword_nmt.learn_bpe import learn_bpe

from fairseq_aiayn.corpus import cleaning, manifest, moses, subwords, texts
from fairseq_aiayn.corpus.cleaning import Cleaning, clean, clean_corpus
from fairseq_aiayn.corpus.manifest import Location, Text, read_manifest
from fairseq_aiayn.corpus.subwords import byte_pairs, learn, sample, sentence_pieces
from fairseq_aiayn.corpus.texts import open_lines, read_set, segments
from fairseq_aiayn.files import decode_lines

SMALL = """
[downloads."a.tgz"]
url = "http://localhost:9/a.tgz"
md5 = "2c2c"
[downloads."valid.en"]
url = "http://localhost:9/valid.en"
size = 7
sha256 = "0a0a"
[downloads."valid.de"]
url = "http://localhost:9/valid.de"
md5 = "1b1b"
[[train]]
name = "a"
file = "a.tgz"
member = "a.{language}"
[valid]
name = "v"
file = "valid.{language}"
sentences = 2
[test]
name = "t"
file = "a.tgz"
member = "t-{side}.{language}"
"""
FRENCH = ["un", "news-commentary-v9", "giga-fren"]


def small_manifest(directory: Path, old: str = "", new: str = "") -> Path:
    """Write SMALL with a change, as an editor on Windows does."""
    text = SMALL.replace(old, new, 1).replace("\n", "\r\n")
    (directory / "corpus.toml").write_text(text, encoding="utf-8-sig", newline="")
    return directory / "corpus.toml"


@pytest.mark.parametrize(
    ("name", "pairs", "texts"),
    [
        ("wmt14_en_de", ["en de", "de en"], ["europarl-v7", "commoncrawl", "news-commentary-v9"]),
        ("wmt14_en_fr", ["en fr", "fr en"], ["europarl-v7", "commoncrawl", *FRENCH]),
        ("multi30k", ["en de", "en fr"], ["train"]),
    ],
)
def test_a_recipe_downloads_what_its_languages_use(name, pairs, texts):
    corpus = read_manifest(RECIPES / name / "corpus.toml")
    assert [text.name for text in corpus.train] == texts
    used = [dict(corpus.used(tuple(pair.split()))) for pair in pairs]
    assert set().union(*used) == set(corpus.downloads)
    for file, download in corpus.downloads.items():
        assert download.url.startswith("http") and download.url.endswith("/" + file)
        kind, _, digits = download.checksum.partition(":")
        assert len(digits) == {"sha256": 64, "md5": 32}[kind]
    if name == "multi30k":
        assert all("fr" not in file for file in used[0]) and len(used[0]) == 6


@pytest.mark.parametrize("language", ["de", "fr"])
def test_wmt14_is_scored_on_all_3003_sentences_of_newstest2014_in_either_direction(language):
    corpus = read_manifest(RECIPES / f"wmt14_en_{language}" / "corpus.toml")
    assert (corpus.valid.sentences, corpus.test.sentences) == (3000, 3003)
    for one, other in (("en", language), (language, "en")):
        for text, name in ((corpus.test, f"2014-{language}en"), (corpus.valid, "2013")):
            members = [place.member.partition("/newstest")[2] for place in text.sides((one, other))]
            assert members == [f"{name}-src.{one}.sgm", f"{name}-ref.{other}.sgm"]


def test_the_command_prints_a_line_of_four_columns_for_each_file_used(tmp_path, filtered):
    languages = ("--source-lang", "en", "--target-lang", "de")
    assert filtered(manifest, "", "--manifest", str(small_manifest(tmp_path)), *languages) == (
        "http://localhost:9/a.tgz\ta.tgz\tmd5:2c2c\t\n"
        "http://localhost:9/valid.en\tvalid.en\tsha256:0a0a\t7\n"
        "http://localhost:9/valid.de\tvalid.de\tmd5:1b1b\t\n"
    )


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ('name = "a"', "", "train.0.name: missing key"),
        ("sha256", "sha265", "downloads.valid.en.sha265: "),
        ('md5 = "1b1b"', "", "downloads.valid.de: expected sha256 or md5"),
        ("a.{language}", "a", "train.0: expected {language}"),
        ("valid.{language}", "../{language}", "valid: expected a file among the downloads"),
        ("valid.{language}", "/{language}", "valid: expected a file among the downloads"),
        ("[[train]]", "[[", "expected TOML: "),
    ],
)
def test_a_wrong_manifest_is_refused_with_its_place(tmp_path, old, new, place):
    path = small_manifest(tmp_path, old, new)
    assert fault_of(read_manifest, path).startswith(f"{path}: {place}")


MANIFEST = RECIPES / "wmt14_en_de" / "corpus.toml"
WMT14 = ("europarl-v7", "commoncrawl", "news-commentary-v9", "newstest2013", "newstest2014")
ODD_LINES = ["one", "", "zwei Wörter", "a\rb", "c\u2028d\x85e\x0bf", "last"]
PACKED = [("x.txt", None), ("x.txt.gz", None), ("x.tar.gz", "in/x.txt")]
PACKED += [("x.tar", "in/x.txt"), ("x.tar", "in/x.txt.gz")]


def noise(count: int, seed: int = 0) -> bytes:
    """Return bytes that gzip cannot make fewer: cuts of a file then fall anywhere in its text."""
    return random.Random(seed).randbytes(count)


def pack(directory: Path, file: str, member: str | None, content: bytes) -> Path:
    """Write one text, between two others where the file is an archive."""
    path = directory / file
    if member is None:
        path.write_bytes(gzip.compress(content) if file.endswith(".gz") else content)
        return path
    with tarfile.open(path, "w" if file.endswith(".tar") else "w:gz") as archive:
        inner = gzip.compress(content) if member.endswith(".gz") else content
        for name, data in (("before", noise(5000)), (member, inner), ("after", b"x\n")):
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return path


def read(directory: Path, file: str, member: str | None = None) -> list[str]:
    return [*decode_lines(open_lines(directory, Location(file, member)), file)]


@pytest.mark.parametrize(("file", "member"), PACKED)
def test_a_newline_alone_ends_a_line_in_every_kind_of_archive(tmp_path, file, member):
    text = "\r\n".join(ODD_LINES)
    for content in (text, f"{text}\n", f"\ufeff{text}"):
        pack(tmp_path, file, member, content.encode())
        assert read(tmp_path, file, member) == ODD_LINES


@pytest.mark.parametrize(("file", "member"), PACKED[1:])
def test_an_archive_that_is_cut_anywhere_is_refused_or_gives_the_whole_text(tmp_path, file, member):
    lines = [noise(40, seed).hex() for seed in range(300)]
    path = pack(tmp_path, file, member, "".join(f"{line}\n" for line in lines).encode())
    whole = path.read_bytes()
    refused = 0
    cuts = {len(whole) - 1, *range(997, len(whole), 997)}
    cuts |= {*range(tarfile.BLOCKSIZE, len(whole), tarfile.BLOCKSIZE)}
    for cut in cuts:
        path.write_bytes(whole[:cut])
        try:
            assert read(tmp_path, file, member) == lines
        except ValueError as error:
            assert str(error).startswith(f"{path}: ")
            refused += 1
    assert refused > len(cuts) / 2
    path.write_bytes(b"<html>404 Not Found</html>\n" * 100)
    said = fault_of(read, tmp_path, file, member)
    assert said == f"{path}: is cut short or not a gzip/tar archive"


def test_a_member_is_found_by_its_whole_name(tmp_path):
    pack(tmp_path, "x.tgz", "./a/x", b"yes\n")
    assert read(tmp_path, "x.tgz", "a/x") == ["yes"]
    assert fault_of(read, tmp_path, "x.tgz", "x").endswith("a member x, got before, a/x, after")


def test_memory_does_not_grow_with_the_text_and_nothing_is_unpacked(tmp_path):
    path = pack(tmp_path, "x.tgz", "x.gz", b"the same words again and again\n" * 400_000)
    tracemalloc.start()
    count = sum(1 for _ in open_lines(tmp_path, Location("x.tgz", "x.gz")))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 400_000 and peak < 8 << 20  # the text has 12 MB
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("markup", "lines"),
    [
        ('<SEG ID="1">one</SEG>\n<Seg>two</seG >', ["one", "two"]),
        ('<seg\n id="1">\none\n   and\ttwo\n</seg>', ["one and two"]),
        ("<seg>AT&amp;T &lt;b&gt; &quot;q&quot; &#8217; &#xE9;</seg>", ['AT&T <b> "q" ’ é']),
        ("<seg>R & D, &region, &copy 5, &notit;</seg>", ["R & D, &region, &copy 5, &notit;"]),
        ("<seg>a&#10;b&#13;&#32;c</seg>", ["a b c"]),
        ("<seg>«\u00a0oui\u202f!\u00a0» a\u2028b</seg>", ["«\u00a0oui\u202f!\u00a0» a\u2028b"]),
    ],
)
def test_a_segment_is_one_line_with_its_characters_as_they_are(markup, lines):
    assert [line.decode() for line in segments(markup)] == lines


def test_sgml_that_is_not_utf_8_is_named_with_its_line(tmp_path):
    path = pack(tmp_path, "x.tar", "x.sgm", "<seg>\nGrüße</seg>\n".encode("latin-1"))
    expected = f"{path}/x.sgm:2: byte 3 (0xfc) is not UTF-8"
    assert fault_of(read, tmp_path, "x.tar", "x.sgm") == expected


def unpack(manifest: Path, output: Path, *options: str):
    languages = ("--source-lang", "en", "--target-lang", "de")
    places = ("--manifest", manifest, "--directory", manifest.parent, "--output", output)
    return script(texts.__file__, *places, *languages, *options)


def test_wmt14_sets_are_written_as_plain_text_all_or_none(tmp_path):
    pairs = {name: mirrors.invented_pairs(5, seed) for seed, name in enumerate(WMT14)}
    pairs["newstest2014"][0][0] = 'R&D: 1 < 2, said "AT&T" & others'
    manifest = mirrors.build_mirror(MANIFEST, tmp_path / "mirror", pairs, *LANGUAGES)
    result = unpack(manifest, tmp_path / "data")
    assert (result.returncode, result.stdout) == (0, "")
    written = {path.name: path.read_bytes().decode() for path in (tmp_path / "data").iterdir()}
    assert written == {
        f"{split}.{language}": "".join(f"{line}\n" for line in lines)
        for split, name in (("valid", "newstest2013"), ("test", "newstest2014"))
        for language, lines in zip(LANGUAGES, pairs[name], strict=True)
    }
    assert unpack(manifest, tmp_path / "lower", "--lowercase").returncode == 0
    for name, text in written.items():
        assert (tmp_path / "lower" / name).read_bytes().decode() == text.lower()
    manifest.write_text(manifest.read_text().replace("full/newstest2014", "full/newstest2015"))
    line = refusal(unpack(manifest, tmp_path / "none"))
    path = manifest.parent / "test-full.tgz"
    assert line.startswith(f"texts: {path}: expected a member test-full/newstest2015-deen")
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        (b"a\n" * 1200, b"a\n" * 1200, "x: expected 2 sentences, got 1,200"),
        (b"one\ntwo\n", b"eins\n \n", "x, de:2: expected a sentence"),
        (b"one\ntwo\n", b"eins\n\xff\n", "x, de:2: byte 1 (0xff) is not UTF-8"),
    ],
)
def test_text_that_cannot_be_scored_is_refused(tmp_path, source, target, message):
    (tmp_path / "x.en").write_bytes(source)
    (tmp_path / "x.de").write_bytes(target)
    text = Text("x", "x.{language}", None, 2)
    assert fault_of(read_set, tmp_path, text, LANGUAGES).startswith(message)


@pytest.fixture
def filtered(monkeypatch, give, capsysbinary) -> Callable[..., str]:
    def run(module: ModuleType, text: str | bytes, *options: str) -> str:
        give(text)
        monkeypatch.setattr(sys, "argv", [module.__file__, *options])
        module.main()
        return capsysbinary.readouterr().out.decode()

    return run


LANGUAGES = ("en", "de")
PLAIN = Cleaning(LANGUAGES, "none", False, max_length=6, max_ratio=2.0)
MOSES = Cleaning(LANGUAGES, "moses", True, max_length=20, max_ratio=None)
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
    chance = random.Random(1)
    lines = ["".join(chance.choices(SIGNS, k=chance.randint(0, 30))) for _ in range(300)]
    commands = ["normalize"] * normalize + ["tokenize", "-a"]
    result = CliRunner().invoke(cli, ["-l", language, *commands], input="\n".join(lines) + "\n")
    tokenize = moses.moses_tokenizer(language, normalize)
    assert [tokenize(line) for line in lines] == result.stdout.split("\n")[:-1]


def test_a_line_stays_a_line(filtered):
    """Also an empty one; for Multi30k's lc.norm.tok, hyphenated words stay whole."""
    lines = "Er sagt: „Nein.“\n\nA\u2028b\x85c\x0bd\u00ade\x07f\ufeff \ue000\n\u200b\nSaftig-Grünes"
    tokens = "Er sagt : &quot; Nein &quot; .\n\nA b c d e f\n\nSaftig @-@ Grünes\n"
    options = ("--language", "de", "--normalize")
    assert filtered(moses, lines, *options) == tokens
    tokens = tokens.lower().replace(" @-@ ", "-")
    assert filtered(moses, lines, *options, "--lowercase") == tokens
    assert filtered(moses, "Wort\u00adteil", *options[:2]) == "Wort \u00ad teil\n"


@given(
    *(st.integers(0, 8),) * 2,
    st.integers(1, 6),
    st.sampled_from([None, 1.0, 1.5, 2.0]),
    st.sampled_from([(" ", 1.0), (" ", 0.5), ("", 1.0), ("", 2.0)]),
)
def test_a_pair_is_kept_by_the_lengths_of_its_sides(source, target, max_length, max_ratio, unit):
    """Lengths are in tokens or characters, the ratio is to that of the whole text."""
    space, expected = unit
    sides = tuple(space.join(["w"] * length) for length in (source, target))
    limits = max_length, max_ratio, False, not space, expected
    settings = Cleaning(LANGUAGES, "none", False, *limits)
    kept, counts = clean([tuple(side.encode() for side in sides)], settings)
    shorter, longer = sorted((source, target / expected))
    reasons = {
        "empty": not shorter,
        "too long": max(source, target) > max_length,
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
    settings = Cleaning(LANGUAGES, tokenizer, False, max_length=4, max_ratio=None)
    pairs, counts = clean([(source, target)], settings)
    assert pairs == ([kept] if isinstance(kept, tuple) else [])
    assert isinstance(kept, tuple) or counts[kept] == 1


@pytest.fixture
def corpus(tmp_path, monkeypatch) -> Path:
    monkeypatch.setattr(cleaning, "CHUNK_PAIRS", 10)
    chance = random.Random(7)
    for text, count, opened in ((TEXTS[0], 30, open), (TEXTS[1], 11, gzip.open)):
        for location, language in zip(text.sides(LANGUAGES), LANGUAGES, strict=True):
            lines = (f"{language}-{n}. " * chance.randint(0, 8) for n in range(count))
            with opened(tmp_path / location.file, "wb") as stream:
                stream.write("".join(f"{line.strip()}\n" for line in lines).encode())
    return tmp_path


def make(corpus: Path, settings: Cleaning = PLAIN, workers: int = 2):
    return clean_corpus(TEXTS, corpus, settings, corpus / "tokens", workers)


@pytest.mark.parametrize(("settings", "workers"), [(PLAIN, 1), (MOSES, 2)])
def test_tokens_are_those_of_the_texts_one_after_the_other(corpus, settings, workers):
    counts = make(corpus, settings, workers)
    kept = []
    for text in TEXTS:
        pairs = [*zip(*(open_lines(corpus, side) for side in text.sides(LANGUAGES)), strict=True)]
        expected, counted = clean(pairs, settings)
        kept += expected
        assert counts[text.name] == counted
        assert sum(counted.values()) == 2 * counted["read"] == 2 * len(pairs)
    written = {file.name: file.read_text("utf-8") for file in (corpus / "tokens").iterdir()}
    assert written == {
        f"train.{language}": "".join(f"{line}\n" for line in lines)
        for language, lines in zip(LANGUAGES, zip(*kept, strict=True), strict=True)
    }


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


SYLLABLES = ["ba", "lo", "ti", "grü", "ßen", "s", "x", "ck", "œu", "&amp;", "€", "\U0001f600"]
ODD = ["unsn  ßß grüßt\u2028\u00a0x", "", "balo  tigrü", "\u200b", "lolo"]


def sentences(language: str) -> list[str]:
    chance = random.Random(language)
    words = ["".join(chance.choices(SYLLABLES, k=chance.randint(1, 4))) for _ in range(40)]
    return [" ".join(chance.choices(words, k=chance.randint(1, 9))) for _ in range(70)]


SIDES = [sentences("en"), sentences("de")]
LINES = [*SIDES[0], *SIDES[1]]


@pytest.fixture
def files(tmp_path):
    paths = [tmp_path / "train.en", tmp_path / "train.de"]
    for path, lines in zip(paths, SIDES, strict=True):
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return paths


@pytest.mark.parametrize(
    ("read", "content", "kind"),
    [(byte_pairs, text, "") for text in ("", "codes\n", "#version: 9.9\na b\n", "\xe9 a\n")]
    + [(sentence_pieces, "", ""), (sentence_pieces, "codes\n", "")]
    + [(byte_pairs, "i n 998\ne r 997\nth e</w> 996\n", "three columns, as fastBPE writes them")]
    + [(byte_pairs, "the 100\nof 90\n", "words and their counts, as in a dictionary")],
)
def test_a_file_that_cuts_nothing_is_named_for_what_it_is(read, content, kind, tmp_path):
    (tmp_path / "file").write_text(content, encoding="latin-1")
    said = fault_of(read, tmp_path / "file")
    assert said.startswith(f"{tmp_path}/file: expected ") and said.endswith(kind)


def test_a_model_has_the_pieces_that_sentencepiece_learns(tmp_path):
    options = {"model_type": "bpe", "vocab_size": 60, "character_coverage": 1.0, "minloglevel": 1}
    options |= {"sentence_iterator": iter(LINES), "model_prefix": str(tmp_path / "theirs")}
    sentencepiece.SentencePieceTrainer.train(**options)
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
def test_the_script_learns_and_cuts_lines(read, files, tmp_path, filtered, monkeypatch):
    codes, model = tmp_path / "codes", tmp_path / "model"
    with codes.open("w", encoding="utf-8") as output:
        learn_bpe(io.StringIO("\n".join(LINES)), output, 60)
    options = ("--vocabulary", "60", "--sample", "35", "--output", str(model))
    filtered(subwords, "", "learn", "--text", *map(str, files), *options)
    assert model.read_bytes() == learn(sample(files, 35), 60)
    monkeypatch.setattr(subwords, "CHUNK_LINES", 30)
    option, file = ("--codes", codes) if read is byte_pairs else ("--model", model)
    text = "".join(f"{line}\n" for line in LINES + ODD)
    written = filtered(subwords, text, "apply", option, str(file), "--workers", "2")
    marked = tmp_path / "marked"  # as editors of Windows write text; their mark means nothing
    marked.write_bytes(codecs.BOM_UTF8 + codes.read_bytes())
    assert [*map(byte_pairs(marked), LINES)] == [*map(byte_pairs(codes), LINES)]
    assert written == "".join(f"{read(file)(line)}\n" for line in LINES + ODD)

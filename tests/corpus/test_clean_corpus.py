"""Training text becomes clean tokens: as Moses makes them, and the same after any interruption."""

import gzip
import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from faults import fault_of
from sacremoses.cli import cli

from fairseq_aiayn.corpus import clean_corpus, clean_pairs, moses, shards
from fairseq_aiayn.corpus.clean_pairs import Settings, clean
from fairseq_aiayn.corpus.manifest import read_manifest

LANGUAGES = ("en", "de")
PLAIN = Settings(LANGUAGES, "none", False, max_length=6, max_ratio=2.0)
MOSES = Settings(LANGUAGES, "moses", True, max_length=20, max_ratio=None)
SHARD_PAIRS = 10
MANIFEST = """
[[train]]
name = "news"
file = "news.{language}"
[[train]]
name = "web"
file = "web.{language}.gz"
[valid]
name = "valid"
file = "valid.{language}"
[test]
name = "test"
file = "test.{language}"
"""


# --- Moses ---

LINES = [
    'He said: "Do it, now!" & left <b>| [x] {y}',
    "Well-known, ill - advised -- and re-re-read; it's the dogs' 'own'.",
    'Er sagte: "Nein." Und dann: "Ja, gern."',
    "„Ach“, sagte sie – „so—so…“ ‚nun’ ‘ja‘ don’t `x' ''y''",
    "L'avion n’est «\u00a0pas\u00a0» là\u00a0: 3\u00a0000 nº\u00a07 20\u00a0% !",
    "Dr. A. Bee, e.g. the U.S. one, pays 5,300.50 (No. 7) etc.",
    "wait.... what ?! 3 % , a/b c:d ; http://a.b/c?d=e#f @me",
    "a\tb  c\rd\u2028e\x85f\x1cg\u3000h",
    "",
    "   ",
]
SIGNS = [
    *"aZb .,;:!?-'\"`()[]{}<>|&%$#@/\\",
    *"„“”–—’‘´…«»\u00a0éß",
    "nº",
    "3",
    "17",
    "Mr.",
    "U.S.",
]


def random_lines(count: int) -> list[str]:
    """Return nonsense that is rich in what the rules of Moses are about."""
    signs = random.Random(1)
    return ["".join(signs.choices(SIGNS, k=signs.randint(1, 30))) for _ in range(count)]


@pytest.mark.filterwarnings("ignore:'get_text_stream' is deprecated")  # sacremoses uses it
@pytest.mark.parametrize("language", ["en", "de", "fr", "cs"])
@pytest.mark.parametrize("normalize", [False, True])
def test_tokens_are_those_of_the_sacremoses_command(language, normalize):
    # The command takes some characters for the end of a line.
    lines = [" ".join(line.splitlines()) for line in LINES] + random_lines(300)
    commands = ["normalize"] * normalize + ["tokenize", "-a"]
    result = CliRunner().invoke(cli, ["-l", language, *commands], input="\n".join(lines) + "\n")
    tokenize = moses.moses_tokenizer(language, normalize)
    assert [tokenize(line) for line in lines] == result.stdout.split("\n")[:-1]


def test_lower_cased_text_is_tokenized_as_multi30ks_own_files(filtered):
    """lc.norm.tok: lower-cased, normalized, and hyphenated words stay whole."""
    tokenize = moses.moses_tokenizer("de", normalize=True, lowercase=True)
    line = "Ein Boston-Terrier läuft über „saftig-grünes“ Gras."
    assert tokenize(line) == "ein boston-terrier läuft über &quot; saftig-grünes &quot; gras ."
    options = ("--language", "de", "--normalize", "--lowercase")
    assert filtered(moses, line, *options) == f"{tokenize(line)}\n"


def test_a_quotation_at_the_end_of_a_line_is_normalized_like_others():
    tokenize = moses.moses_tokenizer("de", normalize=True)
    assert tokenize("Er sagt: „Nein.“") == "Er sagt : &quot; Nein &quot; ."


def test_characters_that_do_not_print_separate_words_only_where_moses_normalizes():
    line = "Wort\u00adteil\x07ende\ufeff und \ue000 \u200bso"
    tokens = "Wort teil ende und so"
    assert moses.moses_tokenizer("de", normalize=True)(line) == tokens
    assert moses.moses_tokenizer("de", normalize=False)(line) != tokens
    assert moses.without_nonprinting("\u00a0é\u2028 \u3000") == "\u00a0é\u2028 \u3000"


def test_held_out_text_keeps_its_lines(filtered):
    text = "Ein Wort.\r\n\nA\u2028b\x85c\x0bd\n\u200b\n \nEnde"
    assert filtered(moses, text, "--language", "de", "--normalize").split("\n") == [
        "Ein Wort .",
        "",
        "A b c d",
        "",
        "",
        "Ende",
        "",
    ]


def test_held_out_text_must_be_utf8(filtered):
    with pytest.raises(SystemExit, match="^moses: standard input:2: byte 3 .* is not UTF-8$"):
        filtered(moses, b"eins\nzw\xe4i\n", "--language", "de")


# --- pairs ---


@pytest.mark.parametrize(
    ("source", "target", "settings", "reason"),
    [
        (1, 1, PLAIN, None),
        (0, 3, PLAIN, "empty"),
        (3, 0, PLAIN, "empty"),
        (6, 6, PLAIN, None),
        (7, 6, PLAIN, "too long"),
        (6, 7, PLAIN, "too long"),
        (2, 4, PLAIN, None),
        (2, 5, PLAIN, "ratio"),
        (5, 2, PLAIN, "ratio"),
        (1, 20, MOSES, None),
        (21, 1, MOSES, "too long"),
    ],
)
def test_a_pair_is_kept_by_the_lengths_of_its_sides(source, target, settings, reason):
    sides = [b" ".join([b"w"] * length) for length in (source, target)]
    kept, counts = clean([tuple(sides)], settings)
    assert [tuple(side.encode() for side in pair) for pair in kept] == [tuple(sides)] * (not reason)
    assert counts == {
        **dict.fromkeys(("kept", *clean_pairs.REASONS), 0),
        "read": 1,
        reason or "kept": 1,
    }


def test_a_word_too_long_for_moses_drops_its_pair():
    kept, counts = clean([(b"a", b"w" * 1000), (b"w" * 1001, b"a")], PLAIN)
    assert len(kept) == 1 and counts["too long"] == 1


def test_lengths_are_those_after_tokenization():
    settings = Settings(LANGUAGES, "moses", False, max_length=4, max_ratio=None)
    assert clean([(b"(a) b c", b"a b c d")], settings)[1]["too long"] == 1
    assert clean([(b"(a)", b"a  b c-d")], settings)[1]["too long"] == 1
    assert clean([(b"(a)", b"a  b c")], settings)[0] == [("( a )", "a b c")]


def test_without_tokenizer_only_white_space_is_changed():
    line = "\u3000a|b &  [c] „d“ \u2028\x85 e\r"
    assert clean([(line.encode(), b"x y z")], PLAIN)[0] == [("a|b & [c] „d“ e", "x y z")]


def test_what_no_word_piece_is_made_of_is_empty():
    """Breaks if a pair without pieces stays in the training text."""
    settings = Settings(("en", "fr"), "none", False, 250, None)
    pairs = [("\u200b", "a"), ("b", "\x01 \ufeff"), ("c\u200b \x01", "d")]
    kept, counts = clean([(one.encode(), other.encode()) for one, other in pairs], settings)
    assert kept == [("c\u200b", "d")] and counts["empty"] == 2


def test_broken_characters_are_dropped_and_counted():
    kept, counts = clean([(b"caf\xe9", b"a"), (b"a", b"\xed\xa0\x80"), ("é".encode(), b"e")], PLAIN)
    assert kept == [("é", "e")] and counts["not UTF-8"] == 2


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (("none", True, 1, None), "normalize must come with the tokenizer moses, got none"),
        (("Moses", True, 1, None), "tokenizer must be moses or none, got Moses"),
        (("moses", True, 0, None), "max-length must be at least 1, got 0"),
        (("moses", True, 1, 0.9), "max-ratio must be at least 1, got 0.9"),
        (("moses", True, 1, float("nan")), "max-ratio must be at least 1, got nan"),
    ],
)
def test_settings_are_checked(values, message):
    assert fault_of(Settings, LANGUAGES, *values) == message


# --- the corpus ---


@pytest.fixture
def corpus(tmp_path, monkeypatch) -> Path:
    """A corpus of two texts, of 3 and 2 shards of at most SHARD_PAIRS pairs."""
    monkeypatch.setattr(shards, "SHARD_PAIRS", SHARD_PAIRS)
    (tmp_path / "corpus.toml").write_text(MANIFEST, encoding="utf-8")
    chance = random.Random(7)
    for name, lines, opened in (("news.{}", 30, open), ("web.{}.gz", 11, gzip.open)):
        for language in LANGUAGES:
            with opened(tmp_path / name.format(language), "wb") as stream:
                for number in range(lines):
                    words = [f"{language}-{number}."] * chance.randint(0, 8)
                    stream.write(" ".join(words).encode() + b"\n")
    return tmp_path


def make(corpus: Path, settings: Settings = PLAIN, workers: int = 2, output: str = "tokens"):
    texts = read_manifest(corpus / "corpus.toml", *LANGUAGES).train
    return clean_corpus.clean_corpus(texts, corpus, settings, corpus / output, workers)


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def expected_tokens(corpus: Path, settings: Settings) -> list[list[str]]:
    """Return what stands in both languages' shards, one after the other, the simple way."""
    kept = []
    for name, opened in (("news.{}", open), ("web.{}.gz", gzip.open)):
        sides = [opened(corpus / name.format(language), "rb").read() for language in LANGUAGES]
        kept += clean(list(zip(*(side.split(b"\n")[:-1] for side in sides))), settings)[0]
    return [list(side) for side in zip(*kept)]


@pytest.mark.parametrize("settings", [PLAIN, MOSES])
@pytest.mark.parametrize("workers", [1, 2])
def test_the_shards_hold_the_corpus_in_order(corpus, settings, workers):
    counts = make(corpus, settings, workers)
    names = shards.list_shards(corpus / "tokens")
    assert names == [f"01-news.0000{n}" for n in range(3)] + [f"02-web.0000{n}" for n in range(2)]
    found = [
        [line for name in names for line in shards.read_shard(corpus / "tokens", name, language)]
        for language in LANGUAGES
    ]
    assert found == expected_tokens(corpus, settings)
    assert [(name, of_text["read"]) for name, of_text in counts] == [("news", 30), ("web", 11)]
    for _, of_text in counts:
        assert sum(of_text.values()) == 2 * of_text["read"]


def test_an_interrupted_run_goes_on_and_ends_the_same(corpus):
    make(corpus)
    undisturbed = contents(corpus / "tokens")
    tokens = corpus / "tokens"
    # What kill -9 leaves: no statistics, shards without marker, files half written, .part files.
    (tokens / "statistics.json").unlink()
    (tokens / "01-news.00001.done").unlink()
    (tokens / "01-news.00002.done").unlink()
    (tokens / "01-news.00002.de").write_bytes(b"half a li")
    (tokens / "02-web.00000.en").unlink()
    for name in ("01-news.00001.en", "02-web.00001.done", "statistics.json", "09-gone.00000.de"):
        (tokens / f"{name}.part").write_bytes(b"half")
    make(corpus)
    assert contents(tokens) == undisturbed


def test_finished_shards_are_not_made_again(corpus):
    make(corpus)
    for settings, redone in ((PLAIN, False), (MOSES, True)):
        path = corpus / "tokens" / "01-news.00001.en"
        path.write_bytes(path.read_bytes().replace(b"en", b"EN"))
        make(corpus, settings)
        assert (b"EN" not in path.read_bytes()) is redone


def test_a_shard_of_other_lines_is_made_again(corpus):
    make(corpus)
    path = corpus / "news.de"
    path.write_bytes(path.read_bytes().replace(b"de-7.", b"DE-7."))
    make(corpus)
    make(corpus, output="fresh")
    assert contents(corpus / "tokens") == contents(corpus / "fresh")


def test_shards_of_a_longer_corpus_are_removed(corpus):
    make(corpus)
    (corpus / "tokens" / "notes").write_text("stay")
    for language in LANGUAGES:
        path = corpus / f"news.{language}"
        path.write_bytes(b"".join(line + b"\n" for line in path.read_bytes().split(b"\n")[:12]))
    make(corpus)
    make(corpus, output="fresh")
    (corpus / "fresh" / "notes").write_text("stay")
    assert contents(corpus / "tokens") == contents(corpus / "fresh")


def with_sentences(corpus: Path, number: int) -> None:
    text = MANIFEST.replace('"news"', f'"news"\nsentences = {number}')
    (corpus / "corpus.toml").write_text(text, encoding="utf-8")


def damage(corpus: Path, kind: str) -> None:
    path = corpus / "news.de"
    lines = path.read_bytes().split(b"\n")[:-1]
    changed = {
        "shorter": lines[:-7],
        "longer": lines + [b"more"] * 1234,
        "empty": [],
        "latin-1": [b"caf\xe9"] + lines[1:],
        "sentences": lines,
        "useless": [b""] * len(lines),
    }[kind]
    path.write_bytes(b"".join(line + b"\n" for line in changed))
    if kind == "empty":
        (corpus / "news.en").write_bytes(b"")
    if kind == "sentences":
        with_sentences(corpus, 1031)
    if kind == "useless":
        for language in LANGUAGES:
            (corpus / f"web.{language}.gz").write_bytes(gzip.compress(b"\n"))


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("shorter", "news: must have as many lines in en as in de, has 30 and 23"),
        ("longer", "news: must have as many lines in en as in de, has 30 and 1,264"),
        ("empty", "news: must have sentences, has none"),
        ("latin-1", "news: must be UTF-8, 1 of 30 pairs are not"),
        ("sentences", "news: must have 1,031 sentences, has 30"),
        ("useless", "the corpus must have pairs to keep, all 31 drop"),
    ],
)
def test_a_text_that_cannot_be_right_ends_with_its_name(corpus, kind, message):
    make(corpus)
    damage(corpus, kind)
    assert fault_of(make, corpus) == message
    assert not (corpus / "tokens" / "statistics.json").exists()


def run_script(corpus: Path, *options: str) -> subprocess.CompletedProcess:
    command = [sys.executable, clean_corpus.__file__, "--manifest", str(corpus / "corpus.toml")]
    command += ["--directory", str(corpus), "--source-lang", "en", "--target-lang", "de"]
    command += ["--output", str(corpus / "tokens"), "--workers", "2", "--tokenizer", "none"]
    return subprocess.run(
        [*command, *options], capture_output=True, encoding="utf-8", check=False, env={}
    )


def test_the_script_prints_and_keeps_what_it_counted(corpus):
    with_sentences(corpus, 30)
    result = run_script(corpus, "--max-length", "6", "--max-ratio", "2")
    assert result.returncode == 0
    statistics = json.loads((corpus / "tokens" / "statistics.json").read_bytes())
    rows = [line.split() for line in result.stderr.split("\n")[-4:-1]]
    for row, text in zip(rows, statistics["texts"]):
        assert row == [str(value) for value in text.values()]
    assert rows[-1] == ["all", "41", *(str(sum(map(int, c))) for c in list(zip(*rows[:2]))[2:])]
    assert statistics["settings"] == PLAIN.record()


def test_the_script_ends_with_one_line(corpus):
    result = run_script(corpus, "--max-length", "0")
    assert (result.returncode, result.stderr) == (
        1,
        "clean_corpus: max-length must be at least 1, got 0\n",
    )

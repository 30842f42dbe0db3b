"""What a corpus.toml says, and how a wrong one is refused."""

import subprocess
import tomllib
from pathlib import Path

import mirrors
import pytest
from faults import fault_of
from recipe_runs import RECIPES, script

from fairseq_aiayn.corpus import manifest
from fairseq_aiayn.corpus.manifest import Location, read_manifest

EUROPARL, CRAWL, UN, NEWS = (
    f"training-parallel-{name}.tgz" for name in ("europarl-v7", "commoncrawl", "un", "nc-v9")
)
GIGA = "training-giga-fren.tar"

SMALL = """
[downloads."a.tgz"]
url = "http://localhost:9/a.tgz"
[downloads."valid.en"]
url = "http://localhost:9/valid.en"
size = 7
sha256 = "{digits}"
[downloads."valid.de"]
url = "http://localhost:9/valid.de"
md5 = "{md5}"
[[train]]
name = "a"
file = "a.tgz"
member = "a.{{language}}"
[valid]
name = "v"
file = "valid.{{language}}"
sentences = 2
[test]
name = "t"
file = "a.tgz"
member = "t-{{side}}.{{language}}"
""".format(digits="0a" * 32, md5="1b" * 16)


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "corpus.toml"


def refusal(path: Path, content: str) -> str:
    path.write_text(content, encoding="utf-8")
    said = fault_of(read_manifest, path, "en", "de")
    assert said.startswith(f"{path}: ")
    return said.removeprefix(f"{path}: ")


def run(path: Path, *languages: str) -> subprocess.CompletedProcess:
    options = zip(("--source-lang", "--target-lang"), languages)
    words = (word for pair in options for word in pair)
    return script(manifest.__file__, "--manifest", path, *words)


# --- the real ones ---


@pytest.mark.parametrize(
    ("name", "languages", "files", "texts"),
    [
        (
            "wmt14_en_de",
            ("en", "de"),
            [EUROPARL, CRAWL, NEWS, "dev.tgz", "test-full.tgz"],
            ["europarl-v7", "commoncrawl", "news-commentary-v9"],
        ),
        (
            "wmt14_en_fr",
            ("en", "fr"),
            [EUROPARL, CRAWL, UN, NEWS, GIGA, "dev.tgz", "test-full.tgz"],
            ["europarl-v7", "commoncrawl", "un", "news-commentary-v9", "giga-fren"],
        ),
        (
            "multi30k",
            ("de", "fr"),
            [
                f"{split}.{language}.gz"
                for split in ("train", "val", "test_2016_flickr")
                for language in ("de", "fr")
            ],
            ["train"],
        ),
    ],
)
def test_a_recipe_downloads_what_its_languages_use_in_the_order_of_use(
    name, languages, files, texts
):
    corpus = read_manifest(RECIPES / name / "corpus.toml", *languages)
    assert [download.file for download in corpus.downloads] == files
    assert [text.name for text in corpus.train] == texts
    for download in corpus.downloads:
        assert download.url.startswith("http") and download.url.endswith("/" + download.file)
        assert download.checksum != "-"


@pytest.mark.parametrize(
    ("name", "pairs"),
    [
        ("wmt14_en_de", [("en", "de")]),
        ("wmt14_en_fr", [("en", "fr")]),
        ("multi30k", [("en", "de"), ("en", "fr")]),
    ],
)
def test_every_download_of_a_recipe_is_used_by_some_language_pair(name, pairs):
    path = RECIPES / name / "corpus.toml"
    used = {download.file for pair in pairs for download in read_manifest(path, *pair).downloads}
    assert used == set(tomllib.loads(path.read_text(encoding="utf-8"))["downloads"])


@pytest.mark.parametrize("language", ["de", "fr"])
def test_wmt14_is_scored_on_all_3003_sentences_of_newstest2014(language):
    corpus = read_manifest(RECIPES / f"wmt14_en_{language}" / "corpus.toml", "en", language)
    pair = f"{language}en"
    assert corpus.test.source.member == f"test-full/newstest2014-{pair}-src.en.sgm"
    assert corpus.test.target.member == f"test-full/newstest2014-{pair}-ref.{language}.sgm"
    assert corpus.valid.target.member == f"dev/newstest2013-ref.{language}.sgm"
    assert (corpus.valid.sentences, corpus.test.sentences) == (3000, 3003)


@pytest.mark.parametrize("language", ["de", "fr"])
def test_wmt14_can_be_turned_round(language):
    corpus = read_manifest(RECIPES / f"wmt14_en_{language}" / "corpus.toml", language, "en")
    pair = f"{language}en"
    assert corpus.test.source.member == f"test-full/newstest2014-{pair}-src.{language}.sgm"
    assert corpus.test.target.member == f"test-full/newstest2014-{pair}-ref.en.sgm"
    assert corpus.train[0].source.member == f"training/europarl-v7.{language}-en.{language}"


def test_text_that_is_already_there_needs_no_downloads():
    corpus = read_manifest(RECIPES / "lib" / "split.toml", "en", "de")
    assert corpus.downloads == ()
    assert [text.source for text in (*corpus.train, corpus.valid, corpus.test)] == [
        Location(f"{split}.en", None) for split in ("train", "valid", "test")
    ]


def test_the_mirror_of_a_recipe_reads_as_the_recipe_does(tmp_path):
    path = RECIPES / "wmt14_en_fr" / "corpus.toml"
    real = read_manifest(path, "en", "fr")
    names = [text.name for text in (*real.train, real.valid, real.test)]
    pairs = {name: mirrors.invented_pairs(3, seed) for seed, name in enumerate(names)}
    small = read_manifest(mirrors.build_mirror(path, tmp_path / "m", pairs, "en", "fr"), "en", "fr")
    assert small.train == real.train
    assert [download.file for download in small.downloads] == [d.file for d in real.downloads]
    assert small.test.sentences == 3
    assert {path.name for path in (tmp_path / "m").iterdir()} == {
        "corpus.toml",
        *(download.file for download in small.downloads),
    }
    for download in small.downloads:
        assert download.url == f"http://localhost:9/{download.file}"
        assert download.size == (tmp_path / "m" / download.file).stat().st_size


# --- the command line ---


def test_the_command_prints_a_line_of_four_columns_for_each_file_used(path):
    path.write_text(SMALL, encoding="utf-8")
    result = run(path, "en", "de")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == (
        "http://localhost:9/a.tgz\ta.tgz\t-\t-\n"
        f"http://localhost:9/valid.en\tvalid.en\tsha256:{'0a' * 32}\t7\n"
        f"http://localhost:9/valid.de\tvalid.de\tmd5:{'1b' * 16}\t-\n"
    )


def test_the_command_prints_nothing_where_nothing_is_to_download():
    result = run(RECIPES / "lib" / "split.toml", "en", "de")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_the_command_ends_with_one_line_on_bad_input(path):
    path.write_text(SMALL.replace("[test]", "[tset]"), encoding="utf-8")
    result = run(path, "en", "de")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == f"manifest: {path}: the top level: must have 'test', has not\n"
    result = run(path.with_name("none.toml"), "en", "de")
    assert result.returncode == 1 and result.stderr.count("\n") == 1
    assert result.stderr.startswith("manifest: ") and "none.toml" in result.stderr
    path.write_text(SMALL.replace("test", "t" * 5000), encoding="utf-8")
    result = run(path, "en", "de")
    assert result.returncode == 1 and len(result.stderr) < 400


# --- wrong ones ---


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('name = "a"', "", "train 1: must have 'name', has not"),
        ('file = "a.tgz"', "", "train 1: must have 'file', has not"),
        ('url = "http://localhost:9/a.tgz"', "", "downloads.\"a.tgz\": must have 'url', has not"),
        (
            'name = "v"',
            'name = "v"\nline = 3',
            "valid: unknown key 'line'; the keys are name, file, member, sentences",
        ),
        (
            "size = 7",
            "length = 7",
            "downloads.\"valid.en\": unknown key 'length'; the keys are url, size, sha256, md5",
        ),
        (
            "[downloads.",
            "[download.x]\n[downloads.",
            "the top level: unknown key 'download'; the keys are train, valid, test, downloads",
        ),
        (
            "a.{language}",
            "a.{lang}",
            "train 1: placeholders must be {language} or {side}: a.{lang}",
        ),
        (
            "valid.{language}",
            "valid.{language",
            "valid: placeholders must be {language} or {side}: valid.{language",
        ),
        (
            "a.{language}",
            "a",
            "train 1: file or member must hold {language}, else both sides are one",
        ),
        (
            'member = "a.{language}"',
            "",
            "train 1: must have a member if, and only if, file is an archive: a.tgz",
        ),
        (
            'name = "v"',
            'name = "v"\nmember = "x.{language}"',
            "valid: must have a member if, and only if, file is an archive: valid.en",
        ),
        (
            "valid.{language}",
            "dev.{language}",
            'must have [downloads."dev.en"], has none',
        ),
        (
            "sentences = 2",
            "sentences = true",
            "valid: sentences must be a positive whole number, got True",
        ),
        (
            "size = 7",
            "size = 0",
            'downloads."valid.en": size must be a positive whole number, got 0',
        ),
        (
            "0a0a",
            "0A0a",
            'downloads."valid.en": sha256 must be 64 lower-case hexadecimal digits, got \'0A0a'
            + "0a" * 30
            + "'",
        ),
        (
            "md5 =",
            'sha256 = ""\nmd5 =',
            'downloads."valid.de": must have sha256 or md5, has both',
        ),
        (
            'name = "a"',
            'name = "../a"',
            "train 1: name must be of letters, digits, '.', '_', '-', got '../a'",
        ),
        (
            'url = "http://localhost:9/a.tgz"',
            'url = "x\\t"',
            "downloads.\"a.tgz\": url must be a string of printable characters, got 'x\\t'",
        ),
        ("[[train]]", "[train]", "train must be a list of tables [[train]]"),
        ("[[train]]", "[[", "must be TOML: Invalid initial character for a key part (at line "),
    ],
)
def test_a_wrong_manifest_is_refused_with_its_table_and_the_rule(path, old, new, message):
    assert old in SMALL
    said = refusal(path, SMALL.replace(old, new, 1))
    assert said == message or message.endswith("line ") and said.startswith(message)


def test_the_two_languages_must_differ(path):
    with pytest.raises(ValueError, match="^source and target language must differ, got en twice$"):
        read_manifest(path, "en", "en")


def test_a_language_without_files_is_named(path):
    path.write_text(SMALL, encoding="utf-8")
    message = f'{path}: must have [downloads."valid.fr"], has none'
    assert fault_of(read_manifest, path, "en", "fr") == message

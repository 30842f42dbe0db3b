"""What a corpus.toml says, and how a wrong one is refused."""

import pytest
from faults import fault_of
from recipe_runs import RECIPES, script

from fairseq_aiayn.corpus import manifest
from fairseq_aiayn.corpus.manifest import read_manifest

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


@pytest.fixture
def path(tmp_path):
    text = SMALL.replace("\n", "\r\n")
    (tmp_path / "corpus.toml").write_text(text, encoding="utf-8-sig", newline="")
    return tmp_path / "corpus.toml"


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


def test_the_command_prints_a_line_of_four_columns_for_each_file_used(path):
    languages = ("--source-lang", "en", "--target-lang", "de")
    result = script(manifest.__file__, "--manifest", path, *languages)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == (
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
        ("[[train]]", "[[", "expected TOML: "),
    ],
)
def test_a_wrong_manifest_is_refused_with_its_place(path, old, new, place):
    assert old in SMALL
    path.write_text(SMALL.replace(old, new, 1), encoding="utf-8")
    assert fault_of(read_manifest, path).startswith(f"{path}: {place}")

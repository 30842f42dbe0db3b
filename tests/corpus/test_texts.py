"""What a corpus.toml says, and how a wrong one is refused; texts where they lie: archives and SGML,
and the sets that are made of them."""

import gzip
import io
import random
import tarfile
import tracemalloc
from pathlib import Path

import mirrors
import pytest
from faults import fault_of
from recipe_runs import RECIPES, refusal, script

from fairseq_aiayn.corpus import manifest, texts
from fairseq_aiayn.corpus.manifest import Location, Text, read_manifest
from fairseq_aiayn.corpus.texts import open_lines, read_set, segments
from fairseq_aiayn.text import decode_lines

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


MANIFEST = RECIPES / "wmt14_en_de" / "corpus.toml"
WMT14 = ("europarl-v7", "commoncrawl", "news-commentary-v9", "newstest2013", "newstest2014")
LANGUAGES = ("en", "de")

LINES = ["one", "", "zwei Wörter", "a\rb", "c\u2028d\x85e\x0bf", "last"]
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
    """A byte order mark goes, and the last line end may be missing."""
    text = "\r\n".join(LINES)
    for content in (text, f"{text}\n", f"\ufeff{text}"):
        pack(tmp_path, file, member, content.encode())
        assert read(tmp_path, file, member) == LINES


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
        (
            "<seg>R & D, rock&region, &copy 5, &notit;</seg>",
            ["R & D, rock&region, &copy 5, &notit;"],
        ),
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

"""Reading texts where they lie: archives, SGML, and the held-out sets made of them."""

import codecs
import gzip
import io
import random
import subprocess
import tarfile
import tracemalloc
from pathlib import Path

import mirrors
import pytest
from faults import fault_of
from recipe_runs import RECIPES, script

from fairseq_aiayn.corpus import held_out
from fairseq_aiayn.corpus.archives import open_lines
from fairseq_aiayn.corpus.held_out import read_segments
from fairseq_aiayn.corpus.manifest import Location, Text

MANIFEST = RECIPES / "wmt14_en_de" / "corpus.toml"
WMT14 = ("europarl-v7", "commoncrawl", "news-commentary-v9", "newstest2013", "newstest2014")

LINES = ["one", "", "zwei Wörter", "a\rb", "c\u2028d\x85e\x0bf", "last"]
CONTENT = "".join(f"{line}\n" for line in LINES).encode()
PACKED = [
    ("x.txt", None),
    ("x.txt.gz", None),
    ("x.tgz", "in/x.txt"),
    ("x.tar.gz", "in/x.txt"),
    ("x.tar", "in/x.txt"),
    ("x.tgz", "in/x.txt.gz"),
    ("x.tar", "in/x.txt.gz"),
]


NOISE = random.Random()


@pytest.fixture(autouse=True)
def same_noise() -> None:
    """Each test has the same, whichever ran before it."""
    NOISE.seed(0)


def noise(count: int) -> bytes:
    """Return bytes that gzip cannot make fewer: cuts of a file then fall anywhere in its text."""
    return NOISE.randbytes(count)


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
    return [line.decode() for line in open_lines(directory, Location(file, member))]


# --- archives ---


@pytest.mark.parametrize(("file", "member"), PACKED)
def test_a_newline_alone_ends_a_line_in_every_kind_of_archive(tmp_path, file, member):
    pack(tmp_path, file, member, CONTENT)
    assert read(tmp_path, file, member) == LINES


@pytest.mark.parametrize(("file", "member"), PACKED)
def test_windows_line_ends_a_byte_order_mark_and_a_missing_last_line_end(tmp_path, file, member):
    mark = codecs.BOM_UTF8.decode()
    content = f"{mark}one\r\n{mark}two\r\n\r\nthree\r\r\nfour\r".encode()
    pack(tmp_path, file, member, content)
    assert read(tmp_path, file, member) == ["one", f"{mark}two", "", "three\r", "four"]


@pytest.mark.parametrize(("file", "member"), PACKED)
@pytest.mark.parametrize("content", [b"", codecs.BOM_UTF8])
def test_an_empty_text_has_no_lines(tmp_path, file, member, content):
    pack(tmp_path, file, member, content)
    assert read(tmp_path, file, member) == []


def test_two_members_of_one_archive_are_read_side_by_side(tmp_path):
    pair = mirrors.invented_pairs(30_000, 1)
    pairs = {name: mirrors.invented_pairs(2, 2) for name in WMT14} | {"europarl-v7": pair}
    mirrors.build_mirror(MANIFEST, tmp_path, pairs, "en", "de")
    sides = (
        open_lines(
            tmp_path,
            Location("training-parallel-europarl-v7.tgz", f"training/europarl-v7.de-en.{language}"),
        )
        for language in ("en", "de")
    )
    for got, expected in zip(zip(*sides, strict=True), zip(*pair, strict=True), strict=True):
        assert tuple(line.decode() for line in got) == expected


@pytest.mark.parametrize(("file", "member"), [case for case in PACKED if case[0] != "x.txt"])
def test_an_archive_that_is_cut_anywhere_is_refused_or_gives_the_whole_text(tmp_path, file, member):
    lines = [noise(40).hex() for _ in range(300)]
    path = pack(tmp_path, file, member, "".join(f"{line}\n" for line in lines).encode())
    whole = path.read_bytes()
    refused = 0
    cuts = [*range(0, len(whole), 997), *range(0, len(whole), tarfile.BLOCKSIZE), len(whole) - 1]
    for cut in cuts:
        path.write_bytes(whole[:cut])
        try:
            assert read(tmp_path, file, member) == lines
        except ValueError as error:
            assert str(error) == f"{path}: is cut short or not a gzip/tar archive"
            refused += 1
    assert refused > len(cuts) / 2


@pytest.mark.parametrize("file", ["x.gz", "x.tgz", "x.tar"])
def test_what_is_no_archive_is_refused(tmp_path, file):
    (tmp_path / file).write_bytes(b"<html>404 Not Found</html>\n" * 100)
    member = None if file == "x.gz" else "x"
    said = fault_of(read, tmp_path, file, member)
    assert said == f"{tmp_path / file}: is cut short or not a gzip/tar archive"


@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
def test_a_changed_byte_of_a_gzip_file_is_noticed(tmp_path, share):
    path = pack(tmp_path, "x.gz", None, noise(5000).hex().encode() + b"\n")
    content = bytearray(path.read_bytes())
    content[int(share * len(content))] ^= 0xFF
    path.write_bytes(content)
    assert fault_of(read, tmp_path, "x.gz") == f"{path}: is cut short or not a gzip/tar archive"


def test_damage_in_the_middle_shows_after_the_lines_before_it(tmp_path):
    content = b"".join(noise(40).hex().encode() + b"\n" for _ in range(100_000))
    path = pack(tmp_path, "x.tgz", "x", content)
    mirrors.truncate(path)
    lines = open_lines(tmp_path, Location("x.tgz", "x"))
    assert next(lines) == content[:80]
    with pytest.raises(ValueError, match="is cut short or not a gzip/tar archive$"):
        list(lines)


@pytest.mark.parametrize("file", ["x.tgz", "x.tar"])
def test_a_missing_member_is_named_with_some_that_are_there(tmp_path, file):
    path = pack(tmp_path, file, "x.de", b"x\n")
    assert fault_of(read, tmp_path, file, "x.en") == (
        f"{path}: must have a member x.en, has none (it has: before, x.de, after)"
    )
    mirrors.drop_member(path, "before")
    assert read(tmp_path, file, "x.de") == ["x"]


def test_a_long_list_of_members_is_shortened(tmp_path):
    with tarfile.open(tmp_path / "x.tgz", "w:gz") as archive:
        for number in range(7):
            archive.addfile(tarfile.TarInfo(f"f{number}"))
    assert fault_of(read, tmp_path, "x.tgz", "x").endswith("(it has: f0, f1, f2, f3, f4, ...)")


def test_only_a_regular_file_of_exactly_this_name_is_the_member(tmp_path):
    with tarfile.open(tmp_path / "x.tgz", "w:gz") as archive:
        for kind in (tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE):
            entry = tarfile.TarInfo("a/x")
            entry.type, entry.linkname = kind, "/etc/hostname"
            archive.addfile(entry)
        for name in ("a/x.en", "b/a/x", "x", "A/x"):
            archive.addfile(tarfile.TarInfo(name))
    assert fault_of(read, tmp_path, "x.tgz", "a/x").endswith(
        "must have a member a/x, has none (it has: a/x.en, b/a/x, x, A/x)"
    )


@pytest.mark.parametrize(("stored", "asked"), [("./a/x", "a/x"), ("a/x", "./a/x")])
def test_a_leading_dot_and_slash_is_no_difference(tmp_path, stored, asked):
    pack(tmp_path, "x.tgz", stored, b"yes\n")
    assert read(tmp_path, "x.tgz", asked) == ["yes"]


def test_a_missing_file_is_an_oserror_that_names_it(tmp_path):
    with pytest.raises(FileNotFoundError, match="none.tgz"):
        read(tmp_path, "none.tgz", "x")


@pytest.mark.parametrize(
    ("file", "member"), [("x.gz", None), ("x.tgz", "x"), ("x.tar", "x.gz"), ("x.tar", "x")]
)
def test_memory_does_not_grow_with_the_text_and_nothing_is_unpacked(tmp_path, file, member):
    path = pack(tmp_path, file, member, b"the same words again and again\n" * 400_000)
    tracemalloc.start()
    try:
        assert sum(1 for _ in open_lines(tmp_path, Location(file, member))) == 400_000
        assert tracemalloc.get_traced_memory()[1] < 8 << 20  # the text has 12 MB
    finally:
        tracemalloc.stop()
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, b"?"])
def test_a_member_that_is_no_text_is_not_followed(tmp_path, kind):
    with tarfile.open(tmp_path / "x.tar", "w") as archive:
        entry = tarfile.TarInfo("text")
        entry.type, entry.linkname = kind, "/etc/hostname"
        archive.addfile(entry)
    assert "must have a member text, has none" in fault_of(read, tmp_path, "x.tar", "text")


# --- SGML ---


@pytest.mark.parametrize(
    ("markup", "segments"),
    [
        ('<seg id="1">one</seg><seg id="2">two</seg>', ["one", "two"]),
        ('<SEG ID="1">one</SEG>\n<Seg>two</seG >', ["one", "two"]),
        ('<seg\n id="1">\none\n   and\ttwo\n</seg>', ["one and two"]),
        ("<segment>no</segment><seg>yes</seg>", ["yes"]),
        ("<seg>AT&amp;T &lt;b&gt; &quot;q&quot; &#8217; &#xE9;</seg>", ['AT&T <b> "q" ’ é']),
        ("<seg>&amp;lt;</seg>", ["&lt;"]),
        ("<seg>Q&A, R & D, rock&region, &copy 5, &notit; &</seg>",) * 2,
        ("<seg>a&#10;b&#13;&#32;c</seg>", ["a b c"]),
        ("<seg>1 < 2 > 0 <b>x</b></seg>", ["1 < 2 > 0 <b>x</b>"]),
        ("<seg>«\u00a0oui\u202f!\u00a0» a\u2028b</seg>", ["«\u00a0oui\u202f!\u00a0» a\u2028b"]),
    ],
)
def test_a_segment_is_one_line_with_its_characters_as_they_are(markup, segments):
    if isinstance(segments, str):
        segments = [segments.removeprefix("<seg>").removesuffix("</seg>")]
    assert read_segments(markup) == segments


@pytest.mark.parametrize(
    ("markup", "message"),
    [
        ("", "must have segments <seg>...</seg>, has none"),
        ("<doc><p>text</p></doc>", "must have segments <seg>...</seg>, has none"),
        ("<seg>a</seg><seg>b", "segment 2 must end with </seg>, does not"),
        ("<seg>a\n<seg id='2'>b</seg>", "segment 1 must end with </seg>, does not"),
        ("<seg>a</seg><seg id='2'></seg>", "segment 2 is empty"),
        ("<seg>a</seg><seg> &#10;\u00a0</seg>", "segment 2 is empty"),
    ],
)
def test_sgml_that_is_not_whole_is_refused(markup, message):
    assert fault_of(read_segments, markup) == message


# --- held-out sets ---


def parallel(directory: Path, source: bytes, target: bytes, sentences: int | None = None) -> Text:
    (directory / "x.en").write_bytes(source)
    (directory / "x.de").write_bytes(target)
    return Text("x", Location("x.en", None), Location("x.de", None), sentences)


def unpack(manifest: Path, output: Path) -> subprocess.CompletedProcess:
    options = ("--manifest", manifest, "--directory", manifest.parent, "--output", output)
    return script(held_out.__file__, *options, "--source-lang", "en", "--target-lang", "de")


@pytest.fixture
def mirror(tmp_path) -> tuple[Path, dict[str, mirrors.Pair]]:
    pairs = {name: mirrors.invented_pairs(5, seed) for seed, name in enumerate(WMT14)}
    pairs["newstest2014"][0][0] = 'R&D: 1 < 2, said "AT&T" & others'
    return mirrors.build_mirror(MANIFEST, tmp_path / "mirror", pairs, "en", "de"), pairs


def test_wmt14_held_out_sets_are_written_as_plain_text(mirror, tmp_path):
    manifest, pairs = mirror
    output = tmp_path / "exp" / "data"
    result = unpack(manifest, output)
    assert (result.returncode, result.stdout) == (0, "")
    assert result.stderr == (
        "valid: 5 sentences of newstest2013\ntest: 5 sentences of newstest2014\n"
    )
    written = {path.name: path.read_text(encoding="utf-8") for path in output.iterdir()}
    assert written == {
        f"{split}.{language}": "".join(f"{line}\n" for line in lines)
        for split, name in (("valid", "newstest2013"), ("test", "newstest2014"))
        for language, lines in zip(("en", "de"), pairs[name])
    }


def test_held_out_sets_are_written_all_or_none(mirror, tmp_path):
    manifest, _ = mirror
    output = tmp_path / "data"
    path = manifest.parent / "test-full.tgz"
    member = "test-full/newstest2014-deen-ref.de.sgm"
    mirrors.drop_member(path, member)
    result = unpack(manifest, output)
    assert result.returncode == 1 and not output.exists()
    assert result.stderr.splitlines()[-1] == (
        f"held_out: {path}: must have a member {member}, has none (it has: "
        "test-full/newstest2014-csen-ref.cs.sgm, test-full/newstest2014-csen-src.cs.sgm, "
        "test-full/newstest2014-deen-src.en.sgm)"
    )
    mirrors.truncate(path)
    result = unpack(manifest, output)
    assert result.returncode == 1 and not output.exists()
    assert result.stderr.splitlines()[-1] == (
        f"held_out: {path}: is cut short or not a gzip/tar archive"
    )


def test_no_output_has_its_name_before_all_are_written(tmp_path):
    (tmp_path / "test.en").mkdir()  # in the way
    with pytest.raises(OSError):
        held_out.write_texts(tmp_path, {"valid.en": ["a"], "test.en": ["b"]})
    assert not (tmp_path / "valid.en").exists()


def test_the_shorter_newstest2014_is_refused(tmp_path):
    pairs = {"t": mirrors.invented_pairs(2737, 1), "v": mirrors.invented_pairs(3, 2)}
    manifest = tmp_path / "corpus.toml"
    manifest.write_text(
        '[[train]]\nname = "v"\nfile = "v.{language}"\n[valid]\nname = "v"\nfile = "v.{language}"\n'
        '[test]\nname = "t"\nfile = "t.tgz"\nmember = "t-{side}.{language}.sgm"\nsentences = 2737\n'
    )
    small = mirrors.build_mirror(manifest, tmp_path / "mirror", pairs, "en", "de")
    assert unpack(small, tmp_path / "data").returncode == 0
    small.write_text(small.read_text().replace("2737", "3003"))
    result = unpack(small, tmp_path / "data2")
    assert result.returncode == 1
    assert result.stderr.splitlines()[-1] == (
        f"held_out: {tmp_path / 'mirror' / 't.tgz'}: t-src.en.sgm: "
        "must have 3,003 sentences, has 2,737"
    )


def test_the_target_side_must_have_the_number_of_sentences_too(tmp_path):
    text = parallel(tmp_path, b"a\nb\n", b"a\nb\nc\n", sentences=2)
    message = f"{tmp_path}/x.de: must have 2 sentences, has 3"
    assert fault_of(held_out.read_pair, tmp_path, text) == message


def test_unequal_numbers_of_sentences_name_both_files(tmp_path):
    text = parallel(tmp_path, b"a\n" * 1200, b"a\n" * 1201)
    assert fault_of(held_out.read_pair, tmp_path, text) == (
        f"{tmp_path}/x.en and {tmp_path}/x.de must have equally many sentences, "
        "have 1,200 and 1,201"
    )


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (b"", ": must have sentences, has none"),
        (b"eins\n \n", ":2: expected a sentence, got an empty line"),
        ("eins\nfür\n".encode("latin-1"), ":2: byte 2 (0xfc) is not UTF-8"),
    ],
)
def test_text_that_cannot_be_scored_is_refused(tmp_path, target, message):
    text = parallel(tmp_path, b"one\ntwo\n", target)
    assert fault_of(held_out.read_pair, tmp_path, text) == f"{tmp_path}/x.de{message}"


def test_a_bad_byte_or_segment_in_an_archive_is_named_with_its_member(tmp_path):
    for content, message in (
        (b"<seg>a</seg>\n<seg>\xff</seg>\n", ":2: byte 6 (0xff) is not UTF-8"),
        (b"<seg>a</seg>\n<seg></seg>\n", ": segment 2 is empty"),
    ):
        path = pack(tmp_path, "x.tgz", "d/x.sgm", content)
        found = fault_of(held_out.read_sentences, tmp_path, Location("x.tgz", "d/x.sgm"))
        assert found == f"{path}: d/x.sgm{message}"


def test_a_sentence_is_written_as_it_is(tmp_path):
    lines = ["  two  spaces ", "a\u2028b\x85c", "tab\there", "«\u00a0oui\u00a0»"]
    content = "".join(f"{line}\n" for line in lines).encode()
    source, _ = held_out.read_pair(tmp_path, parallel(tmp_path, content, content))
    held_out.write_texts(tmp_path / "data", {"test.en": source})
    assert (tmp_path / "data" / "test.en").read_bytes() == content

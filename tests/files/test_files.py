"""Lines and JSON are read strictly, files appear whole or not at all."""

import gzip
import os
import re
import stat
from dataclasses import asdict, dataclass, field

import pytest
from faults import fault_of
from hypothesis import given
from hypothesis import strategies as st

from fairseq_aiayn.files import (
    dataclass_of,
    read_json,
    read_line_pairs,
    read_lines,
    stream_lines,
    whole_file,
    whole_folder,
    write_whole,
)

ODD = ["\ufeff", "\u2028", "\x85", "\x0b", "\x1c", "\r", "\u00a0", "\t", "ß", "a", " ", ""]
LINES = st.lists(st.lists(st.sampled_from(ODD)).map(lambda parts: "".join(parts).rstrip("\r")))


@pytest.mark.parametrize("name", ["a", "A.GZ"])
@given(lines=LINES, end=st.sampled_from(["\n", "\r\n"]), mark=st.booleans())
def test_line_feeds_alone_end_lines(tmp_path_factory, name, lines, end, mark):
    mark = bool(lines) and (mark or lines[0].startswith("\ufeff"))
    text = "\ufeff" * mark + "".join(f"{line}{end}" for line in lines)
    path = tmp_path_factory.getbasetemp() / name
    for content in (text, text.removesuffix(end) if lines and lines[-1] else text):
        packed = gzip.compress(content.encode()) if name.endswith(".GZ") else content.encode()
        path.write_bytes(packed)
        assert read_lines(path) == lines


def test_dash_is_standard_input_and_a_line_is_given_out_before_the_next_is_read(give):
    give("ü\na\u2028b\n".encode() + b"\xff")
    lines = stream_lines("-")
    assert [next(lines), next(lines)] == ["ü", "a\u2028b"]
    with pytest.raises(ValueError, match=r"^standard input:3: byte 1 \(0xff\) is not UTF-8$"):
        next(lines)


PACKED = gzip.compress(b"the\n" * 1000, mtime=0)


@pytest.mark.parametrize("content", [PACKED[:-20], PACKED[:-8] + bytes(8), b"the\n"])
def test_damaged_gzip_is_refused(tmp_path, content):
    path = tmp_path / "a.gz"
    path.write_bytes(content)
    message = rf"{re.escape(str(path))}:\d+: cut short or not gzip"
    assert re.fullmatch(message, fault_of(read_lines, path))


def test_lines_are_read_in_pairs(tmp_path, give):
    three, two, empty = (tmp_path / name for name in ("three", "two.gz", "empty"))
    three.write_text("a\nb\nc")
    two.write_bytes(gzip.compress(b"1\n2\n"))
    empty.touch()
    pairs = read_line_pairs(three, two)
    assert [next(pairs), next(pairs)] == [("a", "1"), ("b", "2")]
    assert fault_of(list, pairs) == f"{two}: expected as many lines as in {three}, got 2"
    for first, second in ((empty, three), (three, empty), (empty, empty)):
        assert fault_of(list, read_line_pairs(first, second)).startswith(f"{empty}: expected ")
    assert "standard input" in fault_of(list, read_line_pairs("-", "-"))
    give("1\n2\n3\n")
    assert [*read_line_pairs(three, "-")] == [("a", "1"), ("b", "2"), ("c", "3")]


@dataclass(frozen=True)
class Part:
    count: int

    def __post_init__(self) -> None:
        if self.count < 0:
            raise ValueError(f"count must be at least 0, got {self.count}")


@dataclass(frozen=True)
class Whole:
    name: str
    share: float
    part: Part
    parts: tuple[Part, ...] = ()
    by_name: dict[str, Part] = field(default_factory=dict)
    given: bool = False
    note: str | None = None


PARTS = st.builds(Part, st.integers(0, 2**63))
NAMES = st.text(st.characters(codec="utf-8"))
GOOD = {"name": "a", "share": 1, "part": {"count": 3}, "unknown": []}


@given(
    st.builds(Whole, NAMES, st.floats(allow_nan=False), PARTS, st.tuples(PARTS), note=NAMES)
    | st.builds(Whole, NAMES, st.just(1.0), PARTS, by_name=st.dictionaries(NAMES, PARTS))
)
def test_what_asdict_gives_is_read_again(whole):
    assert dataclass_of(asdict(whole), Whole, "x.json") == whole
    assert dataclass_of(GOOD, Whole, "x.json") == Whole("a", 1.0, Part(3)), "unknown keys, defaults"


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"share": "1"}, "share: "),
        ({"part": {"count": True}}, "part.count: "),
        ({"part": {"count": -1}}, "part: count must be at least 0"),
        ({"parts": [{"count": 1}, {}]}, "parts.1.count: missing key"),
        ({"by_name": {"b": 1}}, "by_name.b: expected an object, got 1"),
    ],
)
def test_a_wrong_value_is_named_with_its_place(change, place):
    message = fault_of(dataclass_of, GOOD | change, Whole, "x.json")
    assert message.startswith(f"x.json: {place}") and "\n" not in message


@pytest.mark.parametrize("content", [b"{", b"\xff", b"[" * 100_000])
def test_a_file_that_is_not_json_is_named(content, tmp_path):
    (tmp_path / "x.json").write_bytes(content)
    assert fault_of(read_json, tmp_path / "x.json").startswith(f"{tmp_path}/x.json: expected JSON")


def test_a_file_appears_when_its_block_ends_and_not_if_it_fails(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(KeyboardInterrupt), whole_file(path) as file:
        file.write("half")
        raise KeyboardInterrupt
    with whole_file(path) as file:
        file.write("ü\n")
        assert path.read_text() == "old"
    assert path.read_bytes() == "ü\n".encode()
    with pytest.raises(IsADirectoryError), whole_file(tmp_path):
        pass
    with pytest.raises(FileNotFoundError, match=r"/none/b'$"), whole_file(tmp_path / "none" / "b"):
        pass
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_appears_when_its_block_ends(tmp_path):
    path = tmp_path / "in" / "folder"
    with whole_folder(path) as part:
        (part / "inner").mkdir(mode=0o700)
        (part / "inner" / "file").touch(mode=0o600)
        assert not path.exists()
    assert list(path.parent.iterdir()) == [path]
    made = [path, path / "inner", path / "inner" / "file"]
    assert [path, *path.rglob("*")] == made
    assert [each.stat().st_mode & 0o777 for each in made] == [0o755, 0o755, 0o644]
    (tmp_path / "link").symlink_to(tmp_path / "none" / "folder")
    for there in (path, tmp_path / "link"):
        with pytest.raises(ValueError, match=f"{there}: must not exist"), whole_folder(there):
            pass
    (tmp_path / "link").unlink()
    with pytest.raises(KeyboardInterrupt), whole_folder(tmp_path / "other") as part:
        raise KeyboardInterrupt
    failing = whole_folder(tmp_path / "other")
    with pytest.raises(FileNotFoundError, match=f"{tmp_path}/other'"), failing as part:
        (part / "none" / "file").touch()  # the message would speak of a folder that is gone
    assert list(tmp_path.iterdir()) == [path.parent]


def test_unfinished_files_of_a_recipes_command_are_in_its_folder(tmp_path, monkeypatch):
    (tmp_path / ".part").mkdir()
    for parts in ("", str(tmp_path / "none"), str(tmp_path / ".part"), "/dev/shm"):
        monkeypatch.setenv("AIAYN_PARTS", parts)
        with whole_file(tmp_path / "out"):
            begun = [*(tmp_path / ".part").iterdir()]
        assert bool(begun) == parts.endswith(".part")
    assert [path.name for path in sorted(tmp_path.rglob("*"))] == [".part", "out"]


def test_no_file_of_the_user_is_taken_for_a_temporary_one(tmp_path):
    mine = dict.fromkeys((".out", "out.tmp", "out.part", "out~"), "mine")
    for name, text in mine.items():
        (tmp_path / name).write_text(text)
    before = os.umask(0o022)
    write_whole(tmp_path / "out", "new")
    os.umask(before)
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o644
    kept = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert kept == mine | {"out": "new"}


def test_what_is_no_plain_file_is_written_to_and_stays_what_it_is(tmp_path):
    """A device must never become a file; of a link, the file is replaced; rights stay."""
    pipe, file, link = (tmp_path / name for name in ("pipe", "file", "link"))
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_whole(pipe, "through")
    assert os.read(reader, 99) == b"through"
    os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode) and list(tmp_path.iterdir()) == [pipe]
    link.symlink_to(file)
    for content in ("new", "again"):  # open() would make the first
        write_whole(link, content)
        assert link.is_symlink() and file.read_text() == content
    file.chmod(0o600)
    write_whole(file, "private")
    assert file.stat().st_mode & 0o777 == 0o600

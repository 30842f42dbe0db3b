"""Lines of text: what ends one, gzip, and the place of a fault."""

import gzip
import re

import pytest
from faults import fault_of
from hypothesis import given
from hypothesis import strategies as st

from fairseq_aiayn.text import read_line_pairs, read_lines, stream_lines

ODD = ["\ufeff", "\u2028", "\x85", "\x0b", "\x1c", "\r", "\u00a0", "\t", "ß", "a", " ", ""]
LINES = st.lists(st.lists(st.sampled_from(ODD)).map(lambda parts: "".join(parts).rstrip("\r")))


@pytest.mark.parametrize("name", ["a", "A.GZ"])
@given(lines=LINES, end=st.sampled_from(["\n", "\r\n"]), mark=st.booleans())
def test_line_feeds_alone_end_lines(tmp_path_factory, name, lines, end, mark):
    """The line end of Windows goes, as does a byte order mark, and the last one may be missing."""
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

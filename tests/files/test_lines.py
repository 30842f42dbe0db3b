"""Lines of text: what ends one, gzip, and the place of a fault."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from faults import fault_of
from hypothesis import given
from hypothesis import strategies as st

from fairseq_aiayn.text import decode_lines, read_lines, read_parallel, require_text, stream_lines

ODD = ["\u2028", "\x85", "\x0b", "\x1c", "\r", "\u00a0", "\t", "ß", "a", " ", ""]
LINES = st.lists(st.lists(st.sampled_from(ODD)).map(lambda parts: "".join(parts).rstrip("\r")))


@pytest.mark.parametrize("name", ["a", "a.gz", "A.GZ"])
@given(lines=LINES, end=st.sampled_from(["\n", "\r\n"]), mark=st.booleans())
def test_line_feeds_alone_end_lines(
    tmp_path_factory: pytest.TempPathFactory, name: str, lines: list[str], end: str, mark: bool
) -> None:
    """The line end of Windows goes, as does a byte order mark, and the last one may be missing."""
    text = "\ufeff" * mark * bool(lines) + "".join(f"{line}{end}" for line in lines)
    path = tmp_path_factory.getbasetemp() / name
    for content in (text, text.removesuffix(end) if lines and lines[-1] else text):
        packed = (
            gzip.compress(content.encode()) if name.lower().endswith(".gz") else content.encode()
        )
        path.write_bytes(packed)
        assert read_lines(path) == lines


def test_only_the_first_mark_goes_and_only_one_carriage_return(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes("\ufeff\ufeffa\r\r\n\ufeffb".encode())
    assert read_lines(tmp_path / "a") == ["\ufeffa\r", "\ufeffb"]


def test_dash_is_standard_input(give: Callable[..., None]) -> None:
    give("ü\na\u2028b\n".encode() + b"\xff")
    lines = stream_lines("-")
    assert [next(lines), next(lines)] == ["ü", "a\u2028b"]
    with pytest.raises(ValueError, match=r"^standard input:3: byte 1 \(0xff\) is not UTF-8$"):
        next(lines)


def test_a_line_is_given_out_before_the_next_is_read() -> None:
    def lines() -> Iterator[bytes]:
        yield b"the\n"
        raise AssertionError("read ahead")

    assert next(decode_lines(lines(), "t")) == "the"


@pytest.mark.parametrize(
    "content",
    [
        gzip.compress(b"the\n" * 1000)[:-20],
        gzip.compress(b"the\n" * 1000)[:-8] + bytes(8),
        b"the\n",
        b"",
    ],
    ids=["cut short", "wrong checksum", "not gzip", "empty"],  # a gzip header holds the time
)
def test_damaged_gzip_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(content)
    message = rf"{re.escape(str(path))}:\d+: cut short or not gzip"
    assert re.fullmatch(message, fault_of(read_lines, path))


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ("eins\nzwei\ndrei\n", "line counts differ: {0} has 2, {1} has 3"),
        ("", "{1}: empty"),
        ("eins\nf\udcfcr\n", r"{1}:2: byte 2 (0xfc) is not UTF-8"),
    ],
)
def test_parallel_files_have_as_many_lines(tmp_path: Path, second: str, message: str) -> None:
    paths = [tmp_path / "first", tmp_path / "second"]
    for path, text in zip(paths, ("one\ntwo\n", second), strict=True):
        path.write_bytes(text.encode(errors="surrogateescape"))
    assert fault_of(read_parallel, *paths).startswith(message.format(*paths))
    assert fault_of(read_parallel, *reversed(paths))


@pytest.mark.parametrize("blank", ["", " ", "\u00a0\t"])
def test_a_line_without_text_is_named(blank: str) -> None:
    require_text("corpus.de", ["eins", "zwei"])
    assert fault_of(require_text, "corpus.de", ["eins", blank, ""]).startswith("corpus.de:2: ")

"""Lines of text files: line ends, gzip, and the place of a fault."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from faults import fault_of

from fairseq_aiayn import text as lines_module
from fairseq_aiayn.text import decode_lines, stream_lines
from fairseq_aiayn.treebank.trees import read_symbols

TEXT = "\ufeffthe\t board \n\n10\u00a0000 a\u2028b\r\n\ufefflast"
LINES = ["the\t board \n", "\n", "10\u00a0000 a\u2028b\r\n", "\ufefflast"]


@pytest.mark.parametrize("name", ["a", "a.gz", "A.GZ"])
def test_line_feeds_end_lines_and_only_the_first_mark_goes(tmp_path: Path, name: str) -> None:
    content = TEXT.encode()
    packed = name.lower().endswith(".gz")
    (tmp_path / name).write_bytes(gzip.compress(content) if packed else content)
    assert list(stream_lines(tmp_path / name)) == LINES


def test_dash_is_standard_input(give: Callable[..., None]) -> None:
    give(TEXT.encode() + b"\n\xff")
    found = stream_lines("-")
    assert [next(found) for _ in LINES] == [*LINES[:-1], f"{LINES[-1]}\n"]
    with pytest.raises(ValueError, match=r"^standard input:5: byte 1 \(0xff\) is not UTF-8$"):
        next(found)


def test_a_line_is_given_out_before_the_next_is_read() -> None:
    def lines():
        yield b"the\n"
        raise AssertionError("read ahead")

    assert next(decode_lines(lines(), "t")) == "the\n"


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (gzip.compress(b"the\n" * 1000)[:-20], r"\d+"),
        (gzip.compress(b"the\n" * 1000)[:-8] + bytes(8), r"\d+"),
        (b"the\n", "1"),
        (b"", None),
    ],
    ids=[
        "cut short",
        "wrong checksum",
        "not gzip",
        "empty",
    ],  # a gzip header holds the time, so name them
)
def test_damaged_gzip_is_refused(tmp_path: Path, content: bytes, line: str | None) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(content)
    place = f":{line}" if line else ""
    message = f"{re.escape(str(path))}{place}: cut short or not gzip"
    assert re.fullmatch(message, fault_of(list, stream_lines(path)))


def test_symbols_are_what_ascii_white_space_parts(tmp_path: Path) -> None:
    path = tmp_path / "words"
    path.write_bytes(TEXT.encode())
    assert list(read_symbols(path)) == [
        ["the", "board"],
        [],
        ["10\u00a0000", "a\u2028b"],
        ["\ufefflast"],
    ]


def test_a_line_without_end_does_not_fill_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines_module, "LONGEST_LINE", 100)
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(b"ok\n" + b"a" * 101))
    with pytest.raises(ValueError, match=r"bomb\.gz:2: longer than 100 bytes$"):
        list(stream_lines(path))
    path.write_bytes(gzip.compress(b"a" * 99 + b"\n" + b"b" * 100))
    assert [len(line) for line in stream_lines(path)] == [100, 100]

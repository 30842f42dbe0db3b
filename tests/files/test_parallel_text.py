"""Reading of text: what ends a line, and what is refused and how it is named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from faults import fault_of

from fairseq_aiayn.text import read_lines, read_parallel, require_text


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "text"


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"one\ntwo\n", ["one", "two"]),
        (b"one\ntwo", ["one", "two"]),  # the last line end may be missing
        (b"one\n\ntwo\n\n", ["one", "", "two", ""]),
        (b"one\r\ntwo\r\n", ["one", "two"]),
        (b"one\rstill one\n", ["one\rstill one"]),
        (b"\xef\xbb\xbfone\n", ["one"]),
        ("a\u2028b\u0085c\x0bd\n".encode(), ["a\u2028b\u0085c\x0bd"]),  # str.splitlines: 4 lines
    ],
)
def test_only_a_newline_ends_a_line(path: Path, content: bytes, lines: list[str]) -> None:
    path.write_bytes(content)
    assert read_lines(path) == lines


def test_dash_reads_standard_input(give: Callable[..., None]) -> None:
    give("ü\n")
    assert read_lines("-") == ["ü"]


def test_a_byte_that_is_not_utf8_is_named(path: Path) -> None:
    path.write_bytes("gut\nfür\n".encode() + "für\n".encode("latin-1"))
    assert fault_of(read_lines, path) == f"{path}: line 3, byte 2 (0xfc) is not UTF-8"


def test_line_counts_must_agree(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_text("one\ntwo\n")
    second.write_text("eins\nzwei\ndrei\n")
    message = f"line counts differ: {first} has 2, {second} has 3"
    assert fault_of(read_parallel, first, second) == message


@pytest.mark.parametrize("empty", [0, 1])
def test_an_empty_file_is_refused_on_either_side(tmp_path: Path, empty: int) -> None:
    paths = [tmp_path / "first", tmp_path / "second"]
    paths[empty].touch()
    paths[1 - empty].write_text("one\n")
    message = f"{paths[empty]}: empty, expected one sentence per line"
    assert fault_of(read_parallel, *paths) == message


@pytest.mark.parametrize("blank", ["", " ", "\u00a0\t"])
def test_a_line_without_text_is_named(blank: str) -> None:
    require_text("corpus.de", ["eins", "zwei"])
    assert fault_of(require_text, "corpus.de", ["eins", blank, ""]) == "corpus.de: line 2 is empty"

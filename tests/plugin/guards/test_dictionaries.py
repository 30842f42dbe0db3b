"""A faulty dictionary is refused with its file and line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from fairseq.data import Dictionary
from faults import fault_of

from fairseq_aiayn import plugin  # noqa: F401  (guards fairseq's loading)


def load(directory: Path, content: bytes) -> Dictionary:
    """Load a dictionary as fairseq's tasks do."""
    path = directory / "dict.en.txt"
    path.write_bytes(content)
    return Dictionary.load(str(path))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a 1\nb 2\na 3\n", ":3: must be a new word, 'a' is there already"),
        (b"a 1\n<unk> 2\n", ":2: must be a new word, '<unk>' is there already"),
        (b"a 1\nb\n", ":2: must be a word and how often it occurs, is 'b'"),
        (b"a 1\nb two\n", ":2: must be a word and how often it occurs, is 'b two'"),
        (b"a 1\nb 2.5\n", ":2: must be a word and how often it occurs, is 'b 2.5'"),
        (b"a 1\nb -2\n", ":2: must be a word and how often it occurs, is 'b -2'"),
        (b"b " + b"9" * 5000, ":1: must be a word and how often it occurs, is 'b 999"),
        (b"a 1\n\nb 2\n", ":2: must be a word and how often it occurs, is ''"),
        (b"a 1\n 2\n", ":2: must be a word and how often it occurs, is ' 2'"),
        (b"a 1\n#fairseq:overwrite\n", ":2: must be a word and how often it occurs"),
        (b"a 1\ncaf\xe9 2\n", ":2: byte 4 (0xe9) is not UTF-8"),
        ("a 1\n".encode("utf-16"), ":1: byte 1 (0xff) is not UTF-8"),
        (b"", ": must have one word per line, is empty"),
    ],
)
def test_the_line_is_named(content, message, tmp_path):
    assert fault_of(load, tmp_path, content).startswith(f"{tmp_path}/dict.en.txt{message}")


def test_what_fairseq_writes_and_reads_is_left_alone(tmp_path):
    content = "a 3\na\u2028b 2\nc\x85d 1\nmadeupword0000 0\r\na 7 #fairseq:overwrite\nlast 1"
    dictionary = load(tmp_path, content.encode())
    assert dictionary.symbols[4:] == ["a", "a\u2028b", "c\x85d", "madeupword0000", "a", "last"]
    dictionary = Dictionary()
    dictionary.add_symbol("word")
    dictionary.save(str(tmp_path / "dict.txt"))
    assert Dictionary.load(str(tmp_path / "dict.txt")).symbols == dictionary.symbols


def test_a_missing_file_is_the_systems_error_and_a_pipe_is_not_waited_for(tmp_path):
    with pytest.raises(FileNotFoundError):
        Dictionary.load(str(tmp_path / "dict.txt"))
    os.mkfifo(tmp_path / "dict.txt")
    with pytest.raises(ValueError, match="dict.txt: expected a plain file"):
        Dictionary.load(str(tmp_path / "dict.txt"))

"""Files that appear whole or not at all."""

import os
import stat
from pathlib import Path

import pytest

from fairseq_aiayn.files.whole import (
    require_not_among,
    whole_directory,
    whole_file,
    write_whole,
)


def test_a_file_appears_when_its_block_ends(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    with whole_file(path) as file:
        file.write("ü\n")
        assert path.read_text() == "old"
    assert path.read_bytes() == "ü\n".encode()
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_block_that_fails_leaves_what_was_there(
    tmp_path: Path, error: type[BaseException]
) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(error), whole_file(path) as file:
        file.write("half")
        raise error
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_what_is_in_the_way_is_named_and_kept(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    with pytest.raises(IsADirectoryError), whole_file(tmp_path / "a"):
        pass
    (tmp_path / "b.part").mkdir()
    with pytest.raises(IsADirectoryError, match=r"b\.part"), whole_file(tmp_path / "b"):
        pass
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b.part"]


def test_what_is_no_plain_file_is_written_to_and_stays_what_it_is(tmp_path: Path) -> None:
    """A device is as a pipe: it must never become a file."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_whole(pipe, "through")
    assert os.read(reader, 99) == b"through"
    os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode) and list(tmp_path.iterdir()) == [pipe]


def test_a_link_stays_and_its_file_is_replaced(tmp_path: Path) -> None:
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_text("old")
    link.symlink_to(file)
    write_whole(link, "new")
    assert link.is_symlink() and file.read_text() == "new"


def test_an_input_is_not_replaced(tmp_path: Path) -> None:
    path, link = tmp_path / "trees", tmp_path / "link"
    path.write_text("x")
    link.symlink_to(path)
    for output in (path, link):
        with pytest.raises(ValueError, match="--words .*: is also an input, and would be replaced"):
            require_not_among("--words", output, ["-", str(path)])
    require_not_among("--words", None, [str(path)])
    require_not_among("--words", tmp_path / "new", [str(path), "-"])


def test_a_directory_appears_when_its_block_ends(tmp_path: Path) -> None:
    path = tmp_path / "new" / "directory"
    with whole_directory("--output", path) as part:
        (part / "a.txt").write_text("a")
        assert not path.exists()
    assert [one.name for one in path.iterdir()] == ["a.txt"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o755
    assert list(path.parent.iterdir()) == [path]
    with (
        pytest.raises(ValueError, match=f"--output {path}: must not exist yet"),
        whole_directory("--output", path),
    ):
        pass


def test_a_directory_whose_block_fails_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(OSError), whole_directory("--output", tmp_path / "a") as part:
        (part / "a.txt").write_text("a")
        raise OSError
    assert list(tmp_path.iterdir()) == []

"""Files that appear whole or not at all."""

import os
import stat

import pytest

from fairseq_aiayn.text import require_not_among, whole_file, whole_folder, write_whole


def test_a_file_appears_when_its_block_ends_and_not_if_it_fails(tmp_path):
    """What is in the way is named and kept."""
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
    """A file that is called like the output stays as it is. The output has a new file's rights."""
    mine = (".out", "out.tmp", "out.part", "out~")
    for name in mine:
        (tmp_path / name).write_text("mine")
    before = os.umask(0o022)
    write_whole(tmp_path / "out", "new")
    os.umask(before)
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o644
    kept = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert kept == {**dict.fromkeys(mine, "mine"), "out": "new"}


def test_what_is_no_plain_file_is_written_to_and_stays_what_it_is(tmp_path):
    """A device is as a pipe: it must never become a file. Of a link, the file is replaced. A file
    that was private stays so."""
    pipe, file, link = (tmp_path / name for name in ("pipe", "file", "link"))
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_whole(pipe, "through")
    assert os.read(reader, 99) == b"through"
    os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode) and list(tmp_path.iterdir()) == [pipe]
    link.symlink_to(file)
    for text in ("new", "again"):  # open() would make the first
        write_whole(link, text)
        assert link.is_symlink() and file.read_text() == text
    file.chmod(0o600)
    write_whole(file, "private")
    assert file.stat().st_mode & 0o777 == 0o600


def test_an_input_is_not_replaced(tmp_path):
    path, link = tmp_path / "trees", tmp_path / "link"
    path.write_text("x")
    link.symlink_to(path)
    for output in (path, link):
        with pytest.raises(ValueError, match="--words .*: is also an input, and would be replaced"):
            require_not_among("--words", output, ["-", str(path)])
    require_not_among("--words", None, [str(path)])
    require_not_among("--words", tmp_path / "new", [str(path), "-"])

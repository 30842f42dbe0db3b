"""Files that appear whole or not at all."""

from pathlib import Path

import pytest

from fairseq_aiayn.evaluation.table_files import whole_file


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

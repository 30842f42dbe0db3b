"""checkpoints/newest.py: from which checkpoint a training goes on, and which ones go."""

import sys
import zipfile
from pathlib import Path

import pytest
from mirrors import truncate

from fairseq_aiayn.checkpoints import newest
from fairseq_aiayn.checkpoints.newest import newest_whole_checkpoint


def write(directory: Path, *names: str) -> Path:
    """Write whole checkpoints of these names."""
    for name in names:
        with zipfile.ZipFile(directory / f"{name}.pt", "w") as archive:
            archive.writestr("data.pkl", "x" * 1000)
    return directory


def names(directory: Path) -> list[str]:
    return sorted(path.stem for path in directory.iterdir())


def call(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> None:
    monkeypatch.setattr(sys, "argv", ["newest.py", *map(str, arguments)])
    newest.main()


def test_the_newest_whole_checkpoint_is_taken_and_broken_ones_go(tmp_path, capsys):
    write(tmp_path, "checkpoint_1_100", "checkpoint_2_900", "checkpoint_10_1000", "checkpoint_last")
    assert newest_whole_checkpoint(tmp_path).name == "checkpoint_10_1000.pt"
    assert capsys.readouterr().err == ""
    for name in ("checkpoint_10_1000.pt", "checkpoint_last.pt"):
        truncate(tmp_path / name)
    assert newest_whole_checkpoint(tmp_path).name == "checkpoint_2_900.pt"
    assert names(tmp_path) == ["checkpoint_1_100", "checkpoint_2_900"]
    assert f"{tmp_path}/checkpoint_last.pt is cut short: removed\n" in capsys.readouterr().err
    assert newest_whole_checkpoint(tmp_path / "absent") is None


def test_the_last_one_is_taken_where_it_is_the_only_one(tmp_path):
    write(tmp_path, "checkpoint_last")
    assert newest_whole_checkpoint(tmp_path).name == "checkpoint_last.pt"
    assert newest_whole_checkpoint(tmp_path, below=1000).name == "checkpoint_last.pt"


@pytest.mark.parametrize("final", ["checkpoint_10_1000", "checkpoint_11_1001"])
def test_a_final_checkpoint_goes_with_its_copy_and_the_one_before_is_taken(tmp_path, final, capsys):
    write(tmp_path, "checkpoint_2_900", "checkpoint_9_999", final, "checkpoint_last")
    assert newest_whole_checkpoint(tmp_path, below=1000).name == "checkpoint_9_999.pt"
    assert names(tmp_path) == ["checkpoint_2_900", "checkpoint_9_999"]
    assert capsys.readouterr().err == "".join(
        f"{tmp_path}/{name}.pt has 1,000 updates or more: removed\n"
        for name in ("checkpoint_last", final)
    )


def test_a_final_checkpoint_with_none_before_it_is_kept_and_taken(tmp_path, capsys):
    kept = ["checkpoint_10_1000", "checkpoint_best", "checkpoint_last"]
    write(tmp_path, "checkpoint_9_999", *kept)
    truncate(tmp_path / "checkpoint_9_999.pt")  # leaves nothing to go back to
    assert newest_whole_checkpoint(tmp_path, below=1000).name == "checkpoint_10_1000.pt"
    assert names(tmp_path) == kept
    assert capsys.readouterr().err == (
        f"{tmp_path}/checkpoint_9_999.pt is cut short: removed\n"
        f"{tmp_path}/checkpoint_10_1000.pt has 1,000 updates or more, but none before it is left: "
        "the training does one more\n"
    )


def test_a_broken_final_checkpoint_takes_its_copy_along(tmp_path):
    write(tmp_path, "checkpoint_9_999", "checkpoint_10_1000", "checkpoint_last")
    truncate(tmp_path / "checkpoint_10_1000.pt")
    assert newest_whole_checkpoint(tmp_path, below=1000).name == "checkpoint_9_999.pt"
    assert names(tmp_path) == ["checkpoint_9_999"]


def test_nothing_goes_where_no_checkpoint_is_final(tmp_path):
    write(tmp_path, "checkpoint_2_900", "checkpoint_9_999", "checkpoint_last")
    assert newest_whole_checkpoint(tmp_path, below=1000).name == "checkpoint_9_999.pt"
    assert names(tmp_path) == ["checkpoint_2_900", "checkpoint_9_999", "checkpoint_last"]


def test_another_node_may_have_removed_a_checkpoint_already(tmp_path, monkeypatch):
    write(tmp_path, "checkpoint_1_100", "checkpoint_2_200", "checkpoint_last", "checkpoint_1_50")
    truncate(tmp_path / "checkpoint_1_50.pt")
    unlink = Path.unlink

    def unlink_twice(path: Path, missing_ok: bool = False) -> None:
        unlink(path)
        unlink(path, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", unlink_twice)
    assert newest_whole_checkpoint(tmp_path, below=200).name == "checkpoint_1_100.pt"


def test_the_command_prints_the_path_or_nothing(tmp_path, capsys, monkeypatch):
    write(tmp_path, "checkpoint_1_100", "checkpoint_2_200")
    call(monkeypatch, tmp_path)
    assert capsys.readouterr().out == f"{tmp_path}/checkpoint_2_200.pt\n"
    call(monkeypatch, tmp_path, "--below", 200)
    assert capsys.readouterr().out == f"{tmp_path}/checkpoint_1_100.pt\n"
    call(monkeypatch, tmp_path, "--below", 100)
    assert capsys.readouterr().out == f"{tmp_path}/checkpoint_1_100.pt\n"
    call(monkeypatch, tmp_path / "absent")
    assert capsys.readouterr().out == ""

"""Copies of checkpoints: whole or not there, and independent of what is written later."""

import os
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
from fairseq.checkpoint_utils import torch_persistent_save
from fairseq.file_io import PathManager

from fairseq_aiayn.repairs.copies import copied_whole, into_new_file


def test_half_a_copy_replaces_no_checkpoint(tmp_path, monkeypatch):
    source, last = tmp_path / "checkpoint_1_20.pt", tmp_path / "checkpoint_last.pt"
    source.write_bytes(b"of update 20")
    last.write_bytes(b"of update 10")

    def killed(source: str, target: str, overwrite: bool) -> None:
        Path(target).write_bytes(b"of upd")
        raise KeyboardInterrupt

    def failing(source: str, target: str, overwrite: bool) -> bool:  # as iopath's
        Path(target).write_bytes(b"of upd")
        return False

    with monkeypatch.context() as without_links:
        without_links.setattr(os, "link", Mock(side_effect=OSError))
        with pytest.raises(KeyboardInterrupt):
            copied_whole(killed)(str(source), str(last), overwrite=True)
        assert not copied_whole(failing)(str(source), str(last), overwrite=True)
        assert last.read_bytes() == b"of update 10"
        assert copied_whole(PathManager.copy)(str(source), str(last), overwrite=True)
        assert last.read_bytes() == b"of update 20" and not last.samefile(source)
    assert copied_whole(killed)(str(source), str(last), overwrite=True)
    assert last.samefile(source) and source.read_bytes() == b"of update 20"


def test_a_checkpoint_that_is_written_over_changes_no_copy_of_it(tmp_path, monkeypatch):
    monkeypatch.setattr(PathManager, "opena", open)  # as with iopath's, the file is written into
    first, last = tmp_path / "checkpoint_1_20.pt", tmp_path / "checkpoint_last.pt"
    save = into_new_file(torch_persistent_save)
    for asynchronous in (False, True):
        save([20], str(first))
        copied_whole(PathManager.copy)(str(first), str(last), overwrite=True)
        save([30], str(last), async_write=asynchronous)
        assert torch.load(first) == [20] and torch.load(last) == [30]

"""An error that a user can act on ends fairseq's commands with one line; any other keeps its
traceback."""

from __future__ import annotations

import argparse
import errno
import os
import pickle
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from fairseq import checkpoint_utils
from full_disk import full_disk
from intruder import Intruder

from fairseq_aiayn.checkpoints import require_torch
from fairseq_aiayn.plugin.guards import error_messages


def explained(action: Callable, *arguments: object) -> str | None:
    """The line about the error that an action raises."""
    with pytest.raises(Exception) as caught:
        action(*arguments)
    return error_messages.explain(caught.value)


def wrapped(action: Callable, *arguments: object) -> None:
    """Raise the error of fairseq's trainer for a checkpoint that does not load."""
    try:
        action(*arguments)
    except Exception:  # noqa: BLE001
        raise Exception("Cannot load model parameters from checkpoint")  # noqa: TRY002


def write_malicious(path: Path, marker: Path) -> None:
    """Write a checkpoint in fairseq's form that would create the file `marker`."""
    state = {
        "cfg": argparse.Namespace(arch=Intruder(marker)),
        "model": {"weight": torch.ones(1)},
        "optimizer_history": [{"num_updates": 1}],
    }
    torch.save(state, path)


def test_the_commands_of_fairseq_are_known() -> None:
    name = error_messages.command_name
    assert name("/usr/bin/fairseq-train") == "fairseq-train"
    assert name("fairseq-generate.exe") == "fairseq-generate"
    assert name("/site-packages/fairseq_cli/eval_lm.py") == "fairseq-eval-lm"
    assert name("/usr/bin/pytest") is None and name("") is None and name("train.py") is None


def test_the_hook_stays_away_from_other_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    before = sys.excepthook
    monkeypatch.setattr(sys, "argv", ["notebook.py"])
    error_messages.install()
    assert sys.excepthook is before


def test_one_line_or_the_hook_before(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    passed_on = []
    monkeypatch.setattr(sys, "excepthook", lambda *error: passed_on.append(error[1]))
    monkeypatch.setattr(sys, "argv", ["/bin/fairseq-train"])
    error_messages.install()
    missing, fault = FileNotFoundError(errno.ENOENT, "No such file", "data-bin"), KeyError("fault")
    for error in (missing, fault, KeyboardInterrupt()):
        sys.excepthook(type(error), error, None)
    assert capsys.readouterr().err == "fairseq-train: error: data-bin: No such file\n"
    assert passed_on[0] is fault and len(passed_on) == 2


def test_our_value_errors_are_shown_and_others_are_not() -> None:
    message = "PyTorch 2.6 or later loads checkpoints safely, this is 1.0"
    assert explained(require_torch, "1.0") == message
    assert explained(wrapped, require_torch, "1.0") == message
    assert explained(int, "x") is None
    assert explained(wrapped, int, "x") is None


def test_a_fault_while_handling_our_error_is_not_hidden() -> None:
    def fault() -> None:
        try:
            require_torch("1.0")
        except ValueError:
            {}["missing"]

    assert explained(fault) is None


def test_a_refused_checkpoint_is_named_with_its_class(tmp_path: Path) -> None:
    path, marker = tmp_path / "evil.pt", tmp_path / "ran"
    write_malicious(path, marker)
    line = explained(checkpoint_utils.load_checkpoint_to_cpu, str(path))
    assert line.startswith(f"{path}: refused, it asks for posix.system")
    assert not marker.exists()


@pytest.mark.parametrize("kept", [0, 10, 300, 3000], ids=lambda kept: f"{kept} bytes")
def test_a_truncated_checkpoint_is_named(kept: int, tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.pt"
    torch.save({"model": {"weight": torch.ones(1000)}}, path)
    path.write_bytes(path.read_bytes()[:kept])
    line = explained(checkpoint_utils.load_checkpoint_to_cpu, str(path))
    assert line == f"{path}: truncated, or not a PyTorch checkpoint"


def test_missing_files_are_named(tmp_path: Path) -> None:
    path = str(tmp_path / "none.pt")
    load = checkpoint_utils.load_model_ensemble_and_task
    assert explained(load, [path]) == f"Model file not found: {path}"
    assert explained(os.listdir, path) == f"{path}: No such file or directory"


def test_other_parameters_are_named() -> None:
    embedding, other = torch.nn.Embedding(10, 4), torch.nn.Embedding(12, 4)
    line = explained(wrapped, embedding.load_state_dict, other.state_dict())
    assert line.startswith("the checkpoint does not fit the model: size mismatch for weight")
    assert "\n" not in line and len(line) < 400


def test_a_full_disk_while_saving(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """fairseq tries three times."""
    monkeypatch.setattr(checkpoint_utils.time, "sleep", lambda seconds: None)
    path = tmp_path / "checkpoint.pt"
    path.write_bytes(b"before")
    state = {"weight": torch.ones(300_000)}
    with full_disk(100_000):
        line = explained(checkpoint_utils.torch_persistent_save, state, str(path))
    assert line == f"{path}: File too large"
    assert path.read_bytes() == b"before"


def test_a_full_disk_while_copying_says_where_to_go_on() -> None:
    error = OSError(errno.ENOSPC, "No space left on device", "checkpoint_1_5.pt")
    error.filename2 = "checkpoint_last.pt"
    line = error_messages.explain(error)
    assert line.startswith("checkpoint_last.pt: No space left on device; this copy is incomplete")
    assert line.endswith("continue with --restore-file checkpoint_1_5.pt")


def test_errors_of_the_unpickler_elsewhere_keep_their_traceback() -> None:
    assert error_messages.explain(pickle.UnpicklingError("other data")) is None

"""Plain data of fairseq's checkpoints loads with weights_only on; anything else is refused,
unrun."""

from __future__ import annotations

import argparse
import collections
import os
import pickle
import subprocess
import sys
import typing
import zipfile
from pathlib import Path

import fork_server
import numpy
import omegaconf
import pytest
import torch
from checkpoint_states import save, state_of
from intruder import Intruder

from fairseq_aiayn.checkpoints import Meter, last_checkpoints, read_checkpoint, require_torch

ROOT = Path(__file__).parents[2]


def checkpoint(**more: object) -> dict:
    return state_of(**{"args": argparse.Namespace(arch="aiayn_base")} | more)


def old_meter(name: str) -> object:
    """A meter as fairseq 0.8 saved it: an object of fairseq.meters."""
    meter = type(name, (), {})
    meter.__module__ = "fairseq.meters"
    instance = meter()
    instance.sum = 3.5
    return instance


def config(reference: object = typing.Any) -> omegaconf.DictConfig:
    """A configuration as fairseq makes one: nested containers, and an object among them."""
    content = {"task": {"data": "x"}, "lr": [0.1], "model": argparse.Namespace(arch="aiayn_base")}
    return omegaconf.DictConfig(content, ref_type=reference, flags={"allow_objects": True})


def rename_numpy(path: Path) -> None:
    """Rewrite the checkpoint in `path` with the names of NumPy 1."""
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in parts.items():
            archive.writestr(name, data.replace(b"numpy._core.", b"numpy.core."))


def value_pickle(path: Path) -> bytes:
    with zipfile.ZipFile(path) as archive:
        return next(archive.read(name) for name in archive.namelist() if name.endswith("data.pkl"))


VALUES = {
    "namespace": argparse.Namespace(arch="aiayn_base", lr=[0.1], betas=(0.9, 0.98)),
    "config": config(),
    "config of OmegaConf 2.0": config(typing.Dict[typing.Any, typing.Any]),  # noqa: UP006
    "counts of --eval-bleu": numpy.array([3, 2, 1, 0]),
    "scores": numpy.array([0.5], dtype=numpy.float32),
    "score": numpy.float64(27.3),
    "count": numpy.int32(7),
    "defaultdict": collections.defaultdict(dict),
}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_plain_data_survives_saving_and_loading(value: object, tmp_path: Path) -> None:
    path = save(tmp_path / "checkpoint.pt", checkpoint(value=value))
    loaded = read_checkpoint(path)["value"]
    assert isinstance(loaded, type(value))
    assert numpy.all(loaded == value)
    # What is saved again, as when one process sends it to others, names no type of ours.
    save(tmp_path / "again.pt", checkpoint(value=loaded))
    assert b"fairseq_aiayn" not in value_pickle(tmp_path / "again.pt")


@pytest.mark.parametrize("name", ["AverageMeter", "TimeMeter", "StopwatchMeter"])
def test_old_meters_load_as_their_numbers(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    meter = old_meter(name)
    module = type(sys)("fairseq.meters")
    setattr(module, name, type(meter))
    monkeypatch.setitem(sys.modules, "fairseq.meters", module)
    monkeypatch.setitem(sys.modules, "fairseq", type(sys)("fairseq"))
    save(tmp_path / "checkpoint.pt", checkpoint(meter=meter))
    loaded = read_checkpoint(tmp_path / "checkpoint.pt")["meter"]
    assert type(loaded) is Meter and loaded.sum == 3.5


def test_names_of_numpy_1_load(tmp_path: Path) -> None:
    state = checkpoint(array=numpy.arange(4), scalar=numpy.float64(2.5))
    path = save(tmp_path / "checkpoint.pt", state)
    rename_numpy(path)
    with zipfile.ZipFile(path) as archive:
        assert b"numpy.core.multiarray" in archive.read("checkpoint/data.pkl")
    loaded = read_checkpoint(path)
    assert loaded["array"].tolist() == [0, 1, 2, 3] and loaded["scalar"] == 2.5


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "before PyTorch 1.6"])
def test_a_command_in_a_checkpoint_is_refused_and_not_run(zipped: bool, tmp_path: Path) -> None:
    path, marker = tmp_path / "evil.pt", tmp_path / "ran"
    evil = argparse.Namespace(arch=Intruder(marker))
    torch.save(checkpoint(cfg=evil), path, _use_new_zipfile_serialization=zipped)
    with pytest.raises(ValueError, match=r"evil\.pt: refused, it asks for posix\.system"):
        read_checkpoint(path)
    with pytest.raises(pickle.UnpicklingError):  # torch.load itself, as fairseq calls it
        torch.load(path, map_location="cpu")
    assert not marker.exists()


@pytest.mark.parametrize("name", ["functools.partial", "builtins.eval", "builtins.getattr"])
def test_what_calls_by_name_is_refused(name: str, tmp_path: Path) -> None:
    module, function = name.rsplit(".", 1)
    data = b"\x80\x02c" + f"{module}\n{function}\n".encode() + b"."
    (tmp_path / "evil.pt").write_bytes(data)
    with pytest.raises(ValueError, match=f"refused, it asks for .*{function}"):
        read_checkpoint(tmp_path / "evil.pt")


BROKEN = {
    "empty": lambda data: b"",
    "text": lambda data: b"hello world\n" * 20,
    "half": lambda data: data[: len(data) // 2],
    "first bytes": lambda data: data[:50],
}


@pytest.mark.parametrize("damage", BROKEN.values(), ids=BROKEN)
def test_broken_files_are_named(damage: typing.Callable, tmp_path: Path) -> None:
    path = save(tmp_path / "checkpoint.pt", checkpoint())
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match=r"checkpoint\.pt: truncated, or not a PyTorch checkpoint"):
        read_checkpoint(path)


@pytest.mark.parametrize(
    "state, lacks",
    [
        ([1], "model"),
        ({"model": {}}, "model"),
        ({"args": argparse.Namespace(), "model": {"w": torch.ones(1)}}, "optimizer_history"),
    ],
)
def test_other_data_is_not_a_checkpoint(state: object, lacks: str, tmp_path: Path) -> None:
    save(tmp_path / "other.pt", state)
    with pytest.raises(ValueError, match=f"other.pt: not a checkpoint of fairseq, .* '{lacks}'"):
        read_checkpoint(tmp_path / "other.pt")


@pytest.mark.parametrize(
    "version, fits", [("2.5.1", False), ("1.13.1", False), ("2.6.0+cu124", True)]
)
def test_pytorch_must_have_the_allow_list(version: str, fits: bool) -> None:
    if fits:
        require_torch(version)
    else:
        with pytest.raises(ValueError, match=f"PyTorch 2.6 or later .* this is {version}"):
            require_torch(version)


def test_order_is_by_update_not_by_name_nor_time(tmp_path: Path) -> None:
    newest = save(tmp_path / "checkpoint_1_100.pt", checkpoint(updates=100))
    middle = save(tmp_path / "checkpoint_1_90.pt", checkpoint(updates=90))
    save(tmp_path / "checkpoint_1_9.pt", checkpoint(updates=9))
    for copy in ("checkpoint_best.pt", "checkpoint_last.pt", "checkpoint2.pt"):
        save(tmp_path / copy, checkpoint(updates=200))
    assert last_checkpoints(tmp_path, 2) == [middle, newest]


def test_epochs_serve_where_no_updates_were_saved(tmp_path: Path) -> None:
    for epoch in (2, 9, 10):
        save(tmp_path / f"checkpoint{epoch}.pt", checkpoint(updates=50 * epoch))
    names = [path.name for path in last_checkpoints(tmp_path, 2)]
    assert names == ["checkpoint9.pt", "checkpoint10.pt"]


def test_shards_are_said_to_be_what_they_are(tmp_path):
    (tmp_path / "checkpoint_1_4-shard0.pt").touch()
    with pytest.raises(
        ValueError, match="shards of --use-sharded-state; without it, fairseq-train"
    ):
        last_checkpoints(tmp_path, 1)


def test_too_few_none_and_two_runs_are_refused(tmp_path: Path) -> None:
    save(tmp_path / "checkpoint_1_10.pt", checkpoint(updates=10))
    with pytest.raises(ValueError, match=f"{tmp_path}: 2 checkpoints asked for, 1 found"):
        last_checkpoints(tmp_path, 2)
    with pytest.raises(ValueError, match="the number of checkpoints must be at least 1, got 0"):
        last_checkpoints(tmp_path, 0)
    save(tmp_path / "checkpoint_2_10.pt", checkpoint(updates=10))
    with pytest.raises(ValueError, match="are of one update: a directory holds one run"):
        last_checkpoints(tmp_path, 1)


SENT = """
import io, sys, torch, fairseq, fairseq_aiayn
from fairseq.checkpoint_utils import load_checkpoint_to_cpu
from fairseq.distributed.utils import _split_tensors_from_obj
state, tensors, buffer = load_checkpoint_to_cpu(sys.argv[1]), [], io.BytesIO()
torch.save(_split_tensors_from_obj(state, tensors), buffer)
buffer.seek(0)
sent = torch.load(buffer, map_location="cpu")
print(len(tensors), type(state["cfg"]).__name__, sent["cfg"] == state["cfg"])
"""


def test_a_loaded_checkpoint_can_be_sent_to_other_processes(tmp_path: Path) -> None:
    """Resuming on several GPUs: fairseq sends what it loaded by torch.save and torch.load."""
    state = checkpoint(cfg={"model": argparse.Namespace(arch="aiayn_base"), "lr": [0.1]}, args=None)
    save(tmp_path / "checkpoint.pt", state)
    (tmp_path / "sent.py").write_text(SENT)
    program = fork_server.programs() / fork_server.WORKER
    command = [program, tmp_path / "sent.py", tmp_path / "checkpoint.pt"]
    result = subprocess.run(
        command,
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == ["1", "DictConfig", "True"]

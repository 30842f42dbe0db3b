"""Plain data of checkpoints loads, and nothing else; `aiayn average` against means by hand."""

import argparse
import collections
import math
import os
import pickle
import sys
import typing
import zipfile
from pathlib import Path
from types import ModuleType

import numpy
import omegaconf
import pytest
import torch
from checkpoint_states import checkpoint, configuration, save
from fairseq import checkpoint_utils
from fairseq.distributed import utils
from torch import Tensor

import fairseq_aiayn.plugin  # noqa: F401  (guards fairseq's loading)
from fairseq_aiayn import checkpoints
from fairseq_aiayn.checkpoints import Unread, last_checkpoints, read_checkpoint
from fairseq_aiayn.cli.main import main
from fairseq_aiayn.configuration import plain, plain_configuration

VALUES = {
    "namespace": argparse.Namespace(arch="aiayn_base", lr=[0.1], betas=(0.9, 0.98)),
    "score": numpy.float64(27.3),
    "count": numpy.int32(7),
    "defaultdict": collections.defaultdict(dict),
    "time summed over processes": torch.tensor(3.5),
}


@pytest.mark.parametrize("name", [b"checkpoint.pt", b"mod\xe8le.pt"], ids=["ASCII", "not UTF-8"])
def test_plain_data_survives_saving_and_loading(name, tmp_path):
    """Breaks if PyTorch, which takes every name for UTF-8, has to find the file."""
    path = save(tmp_path / os.fsdecode(name), checkpoint(value=VALUES))
    assert read_checkpoint(path)["value"] == VALUES


@pytest.mark.parametrize("kind", [typing.Any, typing.Dict])  # noqa: UP006
def test_configurations_survive_with_objects_in_them(kind, tmp_path):
    """As plain data, since OmegaConf 2.0 cannot compare them; old files name typing.Dict."""
    content = {"task": {"data": "x"}, "lr": [0.1], "model": argparse.Namespace(arch="aiayn_base")}
    cfg = configuration(content, kind)
    loaded = read_checkpoint(save(tmp_path / "checkpoint.pt", checkpoint(cfg=cfg)))["cfg"]
    assert isinstance(loaded, omegaconf.DictConfig) and plain(loaded) == plain(cfg)


def test_meters_of_fairseq_0_8_load_unread(tmp_path, monkeypatch):
    module = ModuleType("fairseq.meters")
    module.TimeMeter = type("TimeMeter", (), {"__module__": "fairseq.meters"})
    monkeypatch.setitem(sys.modules, "fairseq.meters", module)
    meter = module.TimeMeter()
    meter.sum = 3.5
    path = save(tmp_path / "checkpoint.pt", checkpoint(meter=meter))
    assert isinstance(read_checkpoint(path)["meter"], Unread)


def test_the_names_of_numpy_1_load_and_arrays_are_not_read(tmp_path):
    state = checkpoint(array=numpy.arange(4), scalar=numpy.float64(2.5))
    path = save(tmp_path / "checkpoint.pt", state)
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    assert b"numpy._core." in parts["checkpoint/data.pkl"]
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in parts.items():
            archive.writestr(name, data.replace(b"numpy._core.", b"numpy.core."))
    loaded = read_checkpoint(path)
    assert loaded["scalar"] == 2.5 and isinstance(loaded["array"], Unread)


def test_references_to_values_are_resolved(tmp_path):
    """fairseq 0.10 to 0.12 write them."""
    content = {"lr": [0.1], "a": {"b": None}, "optimizer": {"lr": "${lr}", "c": "${a.b}"}}
    for cfg in (content, configuration(content)):
        state = read_checkpoint(save(tmp_path / "checkpoint.pt", checkpoint(cfg=cfg)))
        assert plain_configuration(state)["optimizer"] == {"lr": [0.1], "c": None}


@pytest.mark.needs_repairs
@pytest.mark.parametrize(
    "load",
    [
        read_checkpoint,
        lambda path: checkpoint_utils.load_checkpoint_to_cpu(str(path)),
        lambda path: checkpoints.average([path], path.with_name("average.pt")),
    ],
    ids=["read", "by fairseq", "average"],
)
@pytest.mark.parametrize(("part", "offset"), [("data.pkl", 90), ("data/0", 0), ("data/1", 3999)])
def test_one_changed_bit_is_noticed(part, offset, load, tmp_path):
    """torch.load compares no checksums, whether it maps the file into memory or not."""
    model = {"w": torch.ones(1000), "b": torch.zeros(1000)}
    path = save(tmp_path / "checkpoint.pt", checkpoint() | {"model": model})
    with zipfile.ZipFile(path) as archive:
        content = archive.read(f"checkpoint/{part}")
    data = bytearray(path.read_bytes())
    data[data.index(content) + offset] ^= 1
    path.write_bytes(data)
    with pytest.raises(ValueError, match=rf"checkpoint\.pt: damaged, .*: Bad CRC.*{part}"):
        load(path)
    if part != "data.pkl":
        read_checkpoint(path, weights=False)  # reads no tensor


@pytest.mark.parametrize("share", [0, 0.02, 0.5])
def test_broken_files_are_named(share, tmp_path):
    path = save(tmp_path / "checkpoint.pt", checkpoint())
    data = path.read_bytes()
    path.write_bytes(data[: int(share * len(data))])
    with pytest.raises(ValueError, match=r"checkpoint\.pt: truncated, or not a PyTorch checkpoint"):
        read_checkpoint(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": [1]}, "it has no 'model'"),
        ({"args": True}, "it has no 'cfg'"),
        ({"model": {"w": 1.0}}, "expected dense tensors by their names in 'model', got 'w'"),
        ({"model": {"w": torch.ones(2).to_sparse()}}, "expected dense tensors"),
        ({"model": {"w": torch.ones(2, device="meta")}}, "expected dense tensors"),
        ({"model": {3: torch.ones(1)}}, "expected dense tensors by their names"),
        ({"cfg": "text"}, "it has no 'cfg'"),
        ({"extra_state": True}, "it has no 'extra_state'"),
        ({"optimizer_history": []}, "it has no 'optimizer_history'"),
        ({"optimizer_history": [None]}, "it has no 'optimizer_history'"),
    ],
)
def test_other_data_is_not_a_checkpoint(change, message, tmp_path):
    save(tmp_path / "other.pt", checkpoint() | change)
    with pytest.raises(ValueError, match=f"other.pt: .*{message}"):
        read_checkpoint(tmp_path / "other.pt")


def test_order_is_by_update_not_by_name(tmp_path):
    """Those of epochs serve where none of updates were saved, and copies never do."""
    for epoch in (2, 9, 10):
        save(tmp_path / f"checkpoint{epoch}.pt", checkpoint(updates=epoch))
    for copy in ("checkpoint_best.pt", "checkpoint_last.pt"):
        save(tmp_path / copy, checkpoint(updates=600))
    names = [path.name for path in last_checkpoints(tmp_path, 2)]
    assert names == ["checkpoint9.pt", "checkpoint10.pt"]
    path = save(tmp_path / "checkpoint_1_9.pt", checkpoint(updates=9))
    assert last_checkpoints(tmp_path, 1) == [path]


def test_too_few_none_and_two_runs_are_refused(tmp_path):
    save(tmp_path / "checkpoint_1_10.pt", checkpoint(updates=10))
    with pytest.raises(ValueError, match=f"{tmp_path}: expected 2 or more checkpoints, got 1"):
        last_checkpoints(tmp_path, 2)
    with pytest.raises(ValueError, match="at least 1 checkpoint"):
        last_checkpoints(tmp_path, 0)
    second = save(tmp_path / "checkpoint_2_10.pt", checkpoint(updates=10))
    with pytest.raises(ValueError, match="are of one update"):
        last_checkpoints(tmp_path, 1)
    save(second, checkpoint(updates=[1]))
    with pytest.raises(ValueError, match=f"{second}: no number of updates in its 'optimizer_hist"):
        last_checkpoints(tmp_path, 1)


@pytest.mark.needs_repairs
def test_a_loaded_checkpoint_can_be_sent_to_other_processes(tmp_path, monkeypatch):
    """Resuming on several GPUs: fairseq sends what it loaded by torch.save and torch.load."""

    def sent(content: object, *_: object) -> object:
        return torch.load(save(tmp_path / "sent", content), map_location="cpu", weights_only=True)

    monkeypatch.setattr(utils, "get_rank", lambda group: 0)
    monkeypatch.setattr(utils, "_broadcast_object_slow", sent)
    monkeypatch.setattr(utils, "broadcast_tensors", lambda tensors, *_: tensors)
    path = save(tmp_path / "checkpoint.pt", checkpoint(array=numpy.arange(4)))
    loaded = checkpoint_utils.load_checkpoint_to_cpu(str(path))
    received = utils.broadcast_object(loaded, 0, None, torch.device("cpu"))
    assert isinstance(received["cfg"], omegaconf.DictConfig)
    assert plain(received["cfg"]) == plain(loaded["cfg"])
    assert received["model"] == loaded["model"]


def test_what_a_program_may_read_by_torch_load_stays_its_own(tmp_path):
    """Also a class that the program itself allows, and that checkpoints need."""
    before, own = torch.serialization.get_safe_globals(), [argparse.Namespace]
    array = save(tmp_path / "array.pt", numpy.arange(3.0))
    path = save(tmp_path / "checkpoint.pt", checkpoint())
    try:
        torch.serialization.clear_safe_globals()
        torch.serialization.add_safe_globals(own)
        for load in (read_checkpoint, checkpoint_utils.load_checkpoint_to_cpu):
            load(path)
            assert torch.serialization.get_safe_globals() == own
            with pytest.raises(pickle.UnpicklingError):
                torch.load(array, weights_only=True)
    finally:
        torch.serialization.clear_safe_globals()
        torch.serialization.add_safe_globals(before)


ONES, FIVE = torch.ones(2), torch.tensor(5)


def save_after(directory: Path, updates: int, **model: Tensor) -> Path:
    state = checkpoint() | {"model": model}
    state["optimizer_history"] = [{"num_updates": updates, "lr_scheduler_state": {}}]
    state |= {"task_state": {"kept": updates}, "last_optimizer_state": torch.ones(1000)}
    state["extra_state"] |= {"best": 1.0, "ema": model}
    return save(directory / f"checkpoint_1_{updates}.pt", state)


def average(directory: Path, last: int, output: str = "average.pt") -> dict:
    path = directory / output
    command = ["average", "--last", str(last), "--dir", str(directory), "--output", str(path)]
    assert main(command) == 0
    return checkpoints.read_checkpoint(path)


def test_mean_of_the_last_by_update_whatever_the_time(tmp_path):
    """What translating needs is kept, and the rest dropped. Integers and booleans have no mean."""
    equal = {"steps": FIVE, "mask": torch.tensor([True, False])}
    for updates, values in ((100, [2.0, 6.0]), (90, [1.0, 2.0]), (9, [1000.0, 1000.0])):
        path = save_after(tmp_path, updates, weight=torch.tensor(values), **equal)
        os.utime(path, (0, 1000 - updates))  # the first is the newest
    state = average(tmp_path, 2)
    assert state["model"]["weight"].tolist() == [1.5, 4.0]
    assert all(torch.equal(state["model"][name], value) for name, value in equal.items())
    assert state["optimizer_history"] == [{"num_updates": 100, "lr_scheduler_state": {}}]
    assert state["cfg"]["model"].arch == "aiayn_base"
    assert state["task_state"] == {"kept": 100}
    assert state["extra_state"] == {"train_iterator": {"epoch": 1}}
    assert "last_optimizer_state" not in state


def test_any_checkpoints_can_be_named(tmp_path, refused):
    """As with --keep-best-checkpoints, whose names do not say the number of updates."""
    names = ["checkpoint.best_bleu_1.0.pt", "checkpoint.best_bleu_2.0.pt"]
    for name, updates in zip(names, (20, 10), strict=True):
        save_after(tmp_path, updates, w=torch.tensor([float(updates)])).rename(tmp_path / name)
    output, inputs = tmp_path / "average.pt", [str(tmp_path / name) for name in names]
    assert main(["average", "--inputs", *inputs, "--output", str(output)]) == 0
    state = checkpoints.read_checkpoint(output)
    assert state["model"]["w"].item() == 15 and state["task_state"] == {"kept": 20}
    for words in (["--inputs", *inputs, "--last", "2", "--dir", str(tmp_path)], ["--last", "2"]):
        assert "--last N --dir DIR or --inputs" in refused("average", *words, "--output", output)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_means_are_float32_at_least_and_sums_do_not_round(dtype, tmp_path):
    """In float16, 60000 + 60000 is infinite, and nothing is between 1 and 1 + eps."""
    torch.manual_seed(1)
    odd, eps = torch.randn(50).to(dtype), torch.finfo(dtype).eps
    large = torch.full((2,), 60000.0, dtype=dtype)
    for updates in (1, 2):
        near = torch.tensor(1.0 + eps * (updates - 1), dtype=dtype)
        save_after(tmp_path, updates, large=large, odd=odd, near=near)
    model = average(tmp_path, 2)["model"]
    expected = torch.promote_types(dtype, torch.float32)
    assert {tensor.dtype for tensor in model.values()} == {expected}
    assert torch.equal(model["large"], large.to(expected))
    assert torch.equal(model["odd"], odd.to(expected))
    if dtype.itemsize == 2:
        assert model["near"].item() == 1.0 + eps / 2


def test_tied_parameters_are_saved_once_and_views_of_one_storage_are_not_tied(tmp_path):
    for updates in (1, 3):
        matrix = torch.full((300, 100), float(updates))
        tied = dict.fromkeys(("encoder", "decoder", "output"), matrix)
        save_after(tmp_path, updates, **tied, own=matrix.clone())
    model = average(tmp_path, 2)["model"]
    assert model["encoder"].data_ptr() == model["decoder"].data_ptr() == model["output"].data_ptr()
    assert model["own"].data_ptr() != model["encoder"].data_ptr()
    assert all(torch.equal(tensor, torch.full((300, 100), 2.0)) for tensor in model.values())
    matrix_bytes = 300 * 100 * 4
    assert 2 * matrix_bytes < (tmp_path / "average.pt").stat().st_size < 2.5 * matrix_bytes
    both = torch.arange(6.0)
    save_after(tmp_path, 4, first=both[:3], second=both[3:], transposed=both.view(2, 3).T)
    model = average(tmp_path, 1)["model"]
    assert model["first"].tolist() == [0, 1, 2] and model["second"].tolist() == [3, 4, 5]
    assert model["transposed"].tolist() == [[0, 3], [1, 4], [2, 5]]


FIRST = {"w": ONES, "v": ONES, "n": FIVE}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"w": torch.ones(3)}, "w is [3] of torch.float32, in {first} it is [2]"),
        ({"w": ONES.half()}, "w is [2] of torch.float16"),
        ({"b": ONES}, "b is [2] of torch.float32, in {first} it is missing"),
        ({"v": 2 * ONES}, "v is not w, in {first} it is"),  # tied
        ({"n": FIVE + 1}, "n differs from {first}; integers have no mean"),
        ({"w": torch.tensor([1.0, math.nan])}, "w has values that are NaN or infinite"),
        ({"v": -math.inf * ONES}, "v has values that are NaN or infinite"),
    ],
)
def test_other_parameters_and_lost_numbers_are_refused(change, message, tmp_path, refused):
    first, second = save_after(tmp_path, 1, **FIRST), save_after(tmp_path, 2, **FIRST | change)
    line = refused("average", "--last", 2, "--dir", tmp_path, "--output", tmp_path / "average.pt")
    assert line.startswith(f"aiayn average: {second}: {message.format(first=first)}")
    assert {*tmp_path.iterdir()} == {first, second}


def test_an_output_that_cannot_be_is_noticed_before_averaging(tmp_path, refused, monkeypatch):
    path, link = save_after(tmp_path, 1, weight=torch.ones(2)), tmp_path / "link"
    link.symlink_to(path)
    monkeypatch.setattr(checkpoints, "mean_parameters", lambda paths: pytest.fail("averages"))
    for output, message in {
        tmp_path / "none" / "average.pt": "No such file or directory",
        path: "is also an input, and would be replaced",
        link: "is also an input, and would be replaced",
    }.items():
        line = refused("average", "--last", 1, "--dir", tmp_path, "--output", output)
        assert f"{output}: {message}" in line

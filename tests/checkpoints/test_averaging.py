"""`aiayn average` against means by hand, and on checkpoints that cannot be averaged."""

import math
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from checkpoint_states import checkpoint
from checkpoint_states import save as write
from torch import Tensor

from fairseq_aiayn import checkpoints
from fairseq_aiayn.cli.main import main

ONES, FIVE = torch.ones(2), torch.tensor(5)


def save(directory: Path, updates: int, **model: Tensor) -> Path:
    """A checkpoint as fairseq writes it after `updates` updates."""
    state = checkpoint() | {"model": model}
    state["optimizer_history"] = [{"num_updates": updates, "lr_scheduler_state": {}}]
    state |= {"task_state": {"kept": updates}, "last_optimizer_state": torch.ones(1000)}
    state["extra_state"] |= {"best": 1.0, "ema": model}
    return write(directory / f"checkpoint_1_{updates}.pt", state)


def average(directory: Path, last: int, output: str = "average.pt") -> dict:
    """Run `aiayn average` and return what it wrote."""
    path = directory / output
    command = ["average", "--last", str(last), "--dir", str(directory), "--output", str(path)]
    assert main(command) == 0
    return checkpoints.read_checkpoint(path)


def refusal(refused: Callable[..., str], directory: Path, last: int) -> str:
    """What `aiayn average` says where it must fail and write nothing."""
    output, before = directory / "average.pt", sorted(os.listdir(directory))
    line = refused("average", "--last", last, "--dir", directory, "--output", output)
    assert sorted(os.listdir(directory)) == before
    return line


def test_mean_of_the_last_by_update_whatever_the_time(tmp_path):
    """What translating needs is kept, and the rest dropped. Integers and booleans have no mean."""
    equal = {"steps": FIVE, "mask": torch.tensor([True, False])}
    for when, (updates, values) in enumerate(
        [(100, [2.0, 6.0]), (90, [1.0, 2.0]), (9, [1000.0, 1000.0])]
    ):
        os.utime(save(tmp_path, updates, weight=torch.tensor(values), **equal), (when, when))
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
        save(tmp_path, updates, w=torch.tensor([float(updates)])).rename(tmp_path / name)
    output, inputs = tmp_path / "average.pt", [str(tmp_path / name) for name in names]
    assert main(["average", "--inputs", *inputs, "--output", str(output)]) == 0
    state = checkpoints.read_checkpoint(output)
    assert state["model"]["w"].item() == 15 and state["task_state"] == {"kept": 20}
    line = refused("average", "--inputs", *inputs, inputs[0], "--output", output)
    assert "are of one update" in line
    for words in (["--inputs", *inputs, "--last", "2", "--dir", str(tmp_path)], ["--last", "2"]):
        assert "--last N --dir DIR or --inputs" in refused("average", *words, "--output", output)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_means_are_float32_at_least_and_sums_do_not_round(dtype, tmp_path):
    """In float16, 60000 + 60000 is infinite; in every dtype the mean of equal values is that
    value; and between 1 and 1 + eps there is no number of half precision."""
    torch.manual_seed(1)
    odd, eps = torch.randn(50).to(dtype), torch.finfo(dtype).eps
    large = torch.full((2,), 60000.0, dtype=dtype)
    for updates in (1, 2):
        near = torch.tensor(1.0 + eps * (updates - 1), dtype=dtype)
        save(tmp_path, updates, large=large, odd=odd, near=near)
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
        save(tmp_path, updates, encoder=matrix, decoder=matrix, output=matrix, own=matrix.clone())
    model = average(tmp_path, 2)["model"]
    assert model["encoder"].data_ptr() == model["decoder"].data_ptr() == model["output"].data_ptr()
    assert model["own"].data_ptr() != model["encoder"].data_ptr()
    assert all(torch.equal(tensor, torch.full((300, 100), 2.0)) for tensor in model.values())
    matrix_bytes = 300 * 100 * 4
    assert 2 * matrix_bytes < (tmp_path / "average.pt").stat().st_size < 2.5 * matrix_bytes
    both = torch.arange(6.0)
    save(tmp_path, 4, first=both[:3], second=both[3:], transposed=both.view(2, 3).T)
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
    first, second = save(tmp_path, 1, **FIRST), save(tmp_path, 2, **FIRST | change)
    line = refusal(refused, tmp_path, 2)
    assert line.startswith(f"aiayn average: {second}: {message.format(first=first)}")


def test_flipped_bytes_are_noticed(tmp_path, refused):
    """A file mapped into memory loads without its checksums being compared."""
    path = save(tmp_path, 1, weight=torch.full((1000,), 3.0))
    data, value = path.read_bytes(), torch.full((100,), 3.0).numpy().tobytes()
    assert value in data
    path.write_bytes(data.replace(value, bytes(len(value)), 1))
    assert f"{path}: damaged" in refusal(refused, tmp_path, 1)


def test_an_output_that_cannot_be_written_or_is_an_input_is_noticed_before_averaging(
    tmp_path, refused, monkeypatch
):
    path, link = save(tmp_path, 1, weight=torch.ones(2)), tmp_path / "link"
    link.symlink_to(path)
    monkeypatch.setattr(checkpoints, "mean_parameters", lambda paths: pytest.fail("averages"))
    for output, message in {
        tmp_path / "none" / "average.pt": "No such file or directory",
        path: "is also an input, and would be replaced",
        link: "is also an input, and would be replaced",
    }.items():
        line = refused("average", "--last", 1, "--dir", tmp_path, "--output", output)
        assert f"{output}: {message}" in line

"""A small checkpoint cannot make its reader take memory, or wait, without end."""

from __future__ import annotations

import argparse
import os
import zipfile
from pathlib import Path

import omegaconf
import pytest
import torch
from checkpoint_states import checkpoint, save
from fairseq import checkpoint_utils
from faults import fault_of

from fairseq_aiayn import plugin  # noqa: F401  (guards fairseq's loading)
from fairseq_aiayn.checkpoints import read_checkpoint

MILLION = 10**6


def refusal(path: Path) -> str:
    """What both ways of reading a checkpoint say, before anything is built of it."""
    lines = {
        fault_of(read_checkpoint, path),
        fault_of(checkpoint_utils.load_checkpoint_to_cpu, str(path)),
    }
    (line,) = lines
    return line


def of(model: dict) -> dict:
    """A checkpoint of these parameters."""
    return checkpoint() | {"model": model}


# --- tensors ---


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "before PyTorch 1.6"])
@pytest.mark.parametrize("place", ["model", "last_optimizer_state", "extra_state"])
def test_a_tensor_that_repeats_a_number_is_refused(place, zipped, tmp_path):
    state = checkpoint()
    state.setdefault(place, {})["weight"] = torch.ones(1).expand(MILLION, MILLION)
    path = tmp_path / "evil.pt"
    torch.save(state, path, _use_new_zipfile_serialization=zipped)
    line = refusal(path)
    assert line.startswith(f"{path}: its tensors must fit into the file of ")
    assert "4,000,000,000,0" in line


def test_many_views_of_one_tensor_count_each(tmp_path):
    whole = torch.ones(10_000)
    views = {str(cut): whole[cut:] for cut in range(100)}
    assert "must fit into the file" in refusal(save(tmp_path / "evil.pt", of(views)))


def test_names_of_one_tensor_count_once(tmp_path):
    """Tied embeddings, and the checkpoint's copies of its model."""
    whole = torch.ones(10_000)
    state = of({str(number): whole for number in range(100)})
    state["extra_state"]["ema"] = state["model"]
    assert len(read_checkpoint(save(tmp_path / "tied.pt", state))["model"]) == 100


@pytest.mark.filterwarnings("ignore:torch.quantize", "ignore:TypedStorage")
@pytest.mark.parametrize(
    "make",
    [
        torch.Tensor.to_sparse,
        lambda tensor: tensor.to("meta"),
        lambda tensor: torch.quantize_per_tensor(tensor, 0.1, 0, torch.qint8),
    ],
    ids=["sparse", "without memory", "quantized"],
)
def test_tensors_are_plain_numbers(make, tmp_path):
    tensor = make(torch.ones(3, 3))
    path = save(tmp_path / "evil.pt", of({"weight": tensor}))
    assert "its tensors must be plain numbers, one is a Tensor of" in refusal(path)


def test_a_compressed_archive_is_not_unpacked(tmp_path):
    path = save(tmp_path / "evil.pt", checkpoint())
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in parts.items():
            archive.writestr(name, data + b"\0" * 1000 * name.endswith("data.pkl"))
    assert refusal(path) == f"{path}: must be stored uncompressed, as torch.save writes"


# --- configurations ---


def nested(depth: int, width: int) -> list:
    value = []
    for _ in range(depth):
        value = [value] * width
    return value


def loop() -> list:
    value = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    "value", [nested(400, 1), nested(30, 10), loop()], ids=["deep", "wide", "loop"]
)
def test_lists_within_lists_end(value, tmp_path):
    path = save(tmp_path / "evil.pt", checkpoint(args=argparse.Namespace(arch=value)))
    expected = "a configuration must have at most 10,000 values in 50 levels"
    assert refusal(path) == f"{path}: {expected}"


def declared(form: str, **sizes: object) -> dict:
    """A checkpoint of fairseq's Transformer with 600 parameters, whose configuration has sizes."""
    options = {"arch": "transformer", "task": "translation", "criterion": "cross_entropy", **sizes}
    state = of({"weight": torch.ones(20, 30)})
    if form == "args":
        return state | {"cfg": None, "args": argparse.Namespace(**options)}
    state["cfg"]["model"] = argparse.Namespace(_name="transformer", **options)
    if form == "config":
        state["cfg"] = omegaconf.OmegaConf.create(state["cfg"], flags={"allow_objects": True})
    return state


FORMS = pytest.mark.parametrize("form", ["args", "dict", "config"])
DIMENSIONS = {"encoder_layers": 2, "encoder_embed_dim": 4, "encoder_ffn_embed_dim": 9}


@FORMS
@pytest.mark.parametrize(
    "name", ["decoder_layers", "encoder_embed_dim", "d_k", "decoder_output_dim"]
)
@pytest.mark.parametrize("size", [10**9, -1, "4", 2.5])
def test_a_size_is_a_number_of_at_most_the_parameters(name, size, form, tmp_path):
    path = save(tmp_path / "evil.pt", declared(form, **{name: size}))
    with pytest.raises(ValueError, match=f"evil.pt: {name} must be a whole number of at most"):
        checkpoint_utils.load_checkpoint_to_cpu(str(path))


@FORMS
def test_layers_have_no_more_parameters_than_the_file(form, tmp_path):
    path = save(tmp_path / "fits.pt", declared(form, **DIMENSIONS))
    checkpoint_utils.load_checkpoint_to_cpu(str(path))
    for name in DIMENSIONS:
        path = save(tmp_path / "evil.pt", declared(form, **DIMENSIONS | {name: 150}))
        with pytest.raises(ValueError, match="the layers of its encoder must be among its 600"):
            checkpoint_utils.load_checkpoint_to_cpu(str(path))


def test_sizes_of_nested_configurations_are_found(tmp_path):
    path = save(tmp_path / "evil.pt", declared("dict", encoder={"layers": 10**9}))
    with pytest.raises(ValueError, match="evil.pt: encoder_layers must be a whole number"):
        checkpoint_utils.load_checkpoint_to_cpu(str(path))


# --- files ---


def test_a_pipe_and_a_device_are_not_waited_for(tmp_path, refused):
    pipe = tmp_path / "checkpoint_1_1.pt"
    os.mkfifo(pipe)
    for path in (pipe, Path("/dev/zero"), tmp_path):
        expected = f"{path}: expected a plain file, got a directory, a pipe or a device"
        assert refusal(path) == expected
    line = refused("average", "--last", 1, "--dir", tmp_path, "--output", tmp_path / "x.pt")
    assert "checkpoint_1_1.pt: expected a plain file" in line

"""A checkpoint becomes a folder and a checkpoint again, bit for bit; what is damaged is named."""

import json
import resource
import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from faults import fault_of
from safetensors.torch import load_file, save_file
from small_models import KINDS, SHARED, small_model, small_run

from fairseq_aiayn.checkpoints import read_checkpoint
from fairseq_aiayn.inference.description import TextProcessing
from fairseq_aiayn.inference.export import folder_or_run, to_fairseq
from fairseq_aiayn.inference.folder import model_card, read_folder, write_folder
from fairseq_aiayn.paper import ROWS
from fairseq_aiayn.plugin.model import AiaynModel, apply_row


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return small_model(tmp_path_factory.mktemp("model") / "exp")


@pytest.fixture
def folder(folder, tmp_path):
    return shutil.copytree(folder, tmp_path / "folder")


def refused(path: Path) -> str:
    with pytest.raises((ValueError, OSError)) as caught:
        read_folder(path)
    return str(caught.value)


@pytest.mark.parametrize(
    ("kind", "precision"),
    [*((kind, "float32") for kind in KINDS), *((SHARED, half) for half in ("float16", "bfloat16"))],
)
def test_every_kind_of_model_comes_back(kind, precision, tmp_path):
    small, dtype = small_model(tmp_path / "model", kind), getattr(torch, precision)

    def are_rounded(weights: Iterable[torch.Tensor], before: Iterable[torch.Tensor]) -> bool:
        return all(map(torch.equal, weights, (weight.to(dtype).float() for weight in before)))

    model = read_folder(small.export(tmp_path / "folder", precision))
    theirs = dict(small.model.transformer.named_parameters())
    mine = dict(model.transformer.named_parameters())
    assert list(mine) == [name.replace(".stack", "") for name in theirs]
    assert are_rounded(mine.values(), theirs.values())
    stored = load_file(tmp_path / "folder" / "model.safetensors")
    assert {name: tensor.dtype for name, tensor in stored.items()} == dict.fromkeys(mine, dtype)
    source = torch.tensor([[1, 5, 6, 7, 2], [8, 9, 5, 6, 2]])
    target = torch.tensor([[2, 5], [2, 6]])
    with torch.no_grad():
        logits = model.transformer(source, target)
        same = torch.equal(logits, small.model.transformer(source, target))
    assert same == (precision == "float32")
    to_fairseq(model, tmp_path / "again.pt")
    before, after = read_checkpoint(small.checkpoint), read_checkpoint(tmp_path / "again.pt")
    assert list(after["model"]) == list(before["model"])
    assert are_rounded(after["model"].values(), before["model"].values())
    assert after["args"] == before["args"]
    apply_row(ROWS[before["args"].arch.removeprefix("aiayn_")], after["args"])
    built = AiaynModel.build_model(after["args"], small.task)
    built.load_state_dict(after["model"], strict=True)


def test_a_run_says_where_its_model_is(tmp_path, monkeypatch):
    """From the run's own directory. A parser's search has one within it."""
    run = small_run(tmp_path / "exp of mine")
    (run / "test").mkdir()
    score = {"score": 24.2345, "signature": "case:mixed"}
    (run / "score.json").write_text(json.dumps({"paper": score, "sacrebleu": "none"}))
    monkeypatch.chdir(run / "test")
    for given in (run, run / "test", Path("..", "test"), Path()):
        model = folder_or_run(given).read()
        assert model.config.text == TextProcessing("byte_pairs", lowercase=True)
        assert model.config.told["data"] == "invented"
    assert "BLEU 24.23 (case:mixed)" in model_card(folder_or_run(run).read())
    (run.parent / "bin" / "sha256").write_text("0dd  -\n")
    with pytest.raises(ValueError, match="has been made anew since"):
        folder_or_run(run)
    rule = "expected a model folder, or a run with its model.json"
    (run / "model.json").unlink()
    nowhere = {path: "there is no such directory" for path in (Path("Select all."), run / "x.html")}
    hints = {run.parent: f"such as '{run}'", run: "this run has none yet", tmp_path: "--data-bin"}
    for given, hint in (hints | nowhere).items():
        fault = fault_of(folder_or_run, given)
        assert fault.startswith(f"{given}: {rule}; ") and hint in fault


@pytest.mark.parametrize(
    "name", ["model.safetensors", "config.json", "source.txt", "target.txt", "codes"]
)
def test_a_file_that_is_cut_off_or_missing_is_named(name, folder):
    path = folder / name
    for end in (path.stat().st_size - 3, 0):
        path.write_bytes(path.read_bytes()[:end])
        assert refused(folder).startswith(str(path))
    path.unlink()
    assert str(path) in refused(folder)


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (lambda config: config.update(format=2), "format"),
        (lambda config: config["sizes"].update(N=3), "decoder.layers.2"),
        (lambda config: config["sizes"].update(d_model=10**12), "size mismatch"),
        (lambda config: config.update(learned_lengths=[10**15, 9]), "encoder.position"),
        (lambda config: config.update(sha256={}), "SHA-256"),
    ],
)
def test_a_configuration_that_does_not_fit_is_named(change, rule, folder):
    """Sizes that no memory could hold are refused before any memory is taken for them."""
    config = json.loads((folder / "config.json").read_text())
    change(config)
    (folder / "config.json").write_text(json.dumps(config))
    message = refused(folder)
    assert message.startswith(str(folder)) and rule in message


def test_changed_weights_are_noticed_but_in_a_folder_of_an_earlier_version(folder):
    path = folder / "model.safetensors"
    data = path.read_bytes()
    path.write_bytes(data[:-8] + bytes(8))
    assert refused(folder).startswith(f"{path}: changed since the export")
    path.unlink()
    path.symlink_to("/dev/zero")
    assert refused(folder).startswith(f"{path}: expected a plain file")
    path.unlink()
    path.write_bytes(data[:-8] + bytes(8))
    forget_sum_of_weights(folder)
    read_folder(folder)


def forget_sum_of_weights(folder: Path) -> None:
    """Make this the folder of an earlier version."""
    config = json.loads((folder / "config.json").read_text())
    del config["sha256"]["model.safetensors"]
    (folder / "config.json").write_text(json.dumps(config))


def test_weights_that_do_not_fit_or_are_not_finite_are_named(folder):
    path, name = folder / "model.safetensors", "encoder.layers.1.feed_forward.W_1.bias"
    forget_sum_of_weights(folder)
    weights = load_file(path)
    for value in (torch.full_like(weights[name], torch.nan), weights[name][:-1].clone()):
        save_file(weights | {name: value}, path)
        message = refused(folder)
        assert name in message and message.startswith(str(path))
    save_file(weights | {"more": weights[name].clone()}, path)
    assert "more" in refused(folder)


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"arch": "transformer"}, "of this plugin"),
        ({"encoder_layers": 3}, "decoder.layers.2"),
        ({"d_k": None}, "sizes.d_k"),
    ],
)
def test_a_checkpoint_that_cannot_be_a_folder_is_named(changes, rule, small, tmp_path):
    state = read_checkpoint(small.checkpoint)
    vars(state["args"]).update(changes)
    torch.save(state, tmp_path / "checkpoint.pt")
    assert rule in fault_of(replace(small, checkpoint=tmp_path / "checkpoint.pt").read)


def test_what_a_failed_export_leaves_is_no_model_and_in_nobodys_way(small, tmp_path):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, limits[1]))  # a write fails halfway
    try:
        with pytest.raises(OSError, match="File too large"):
            small.export(tmp_path / "folder")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    state = read_checkpoint(small.checkpoint)
    state["model"]["encoder.stack.layers.0.feed_forward.W_1.bias"][3] = 1e6
    torch.save(state, tmp_path / "checkpoint.pt")
    large = replace(small, checkpoint=tmp_path / "checkpoint.pt")
    with pytest.raises(ValueError, match="encoder.layers.0.* finite values in float16"):
        large.export(tmp_path / "folder", "float16")
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint.pt"]
    path = large.export(tmp_path / "folder", "bfloat16")
    with pytest.raises(ValueError, match="must not exist yet"):
        write_folder(read_folder(path), path)

"""A checkpoint becomes a folder and a checkpoint again, bit for bit, whatever its model."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from small_models import KINDS, small_model

from fairseq_aiayn.cli import main as cli
from fairseq_aiayn.inference.export import to_fairseq
from fairseq_aiayn.inference.folder import model_card, read_folder, read_vocabulary
from fairseq_aiayn.paper import ROWS
from fairseq_aiayn.plugin.architectures import apply_row
from fairseq_aiayn.plugin.model import AiaynModel


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_model_comes_back_bit_for_bit(kind: str, tmp_path: Path) -> None:
    small = small_model(tmp_path / "model", kind)
    to_fairseq(small.export(tmp_path / "folder"), tmp_path / "again.pt")
    before, after = torch.load(small.checkpoint), torch.load(tmp_path / "again.pt")
    assert list(after["model"]) == list(before["model"])
    assert all(torch.equal(after["model"][name], one) for name, one in before["model"].items())
    assert after["args"] == before["args"]
    apply_row(ROWS[before["args"].arch.removeprefix("aiayn_")], after["args"])
    built = AiaynModel.build_model(after["args"], small.task)
    built.load_state_dict(after["model"], strict=True)


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_has_the_model_of_the_checkpoint(kind: str, tmp_path: Path) -> None:
    """With shared matrices as one parameter, in memory and in the file."""
    small = small_model(tmp_path / "model", kind)
    model = read_folder(small.export(tmp_path / "folder"))
    theirs = dict(small.model.transformer.named_parameters())
    mine = dict(model.transformer.named_parameters())
    assert list(mine) == [name.replace(".stack", "") for name in theirs]
    assert all(map(torch.equal, mine.values(), theirs.values()))
    assert load_file(tmp_path / "folder" / "model.safetensors").keys() == mine.keys()
    assert not model.transformer.training
    source = torch.tensor([[1, 5, 6, 7, 2], [8, 9, 5, 6, 2]])
    with torch.no_grad():
        assert torch.equal(
            model.transformer(source, source[:, :-1]),
            small.model.transformer(source, source[:, :-1]),
        )


@pytest.mark.parametrize("precision", ["float16", "bfloat16"])
def test_half_precision_halves_the_file_and_rounds_the_weights(
    precision: str, tmp_path: Path
) -> None:
    small = small_model(tmp_path / "model")
    whole, half = small.export(tmp_path / "whole"), small.export(tmp_path / "half", precision)
    stored = load_file(half / "model.safetensors")
    assert {str(tensor.dtype) for tensor in stored.values()} == {f"torch.{precision}"}
    rounded = getattr(torch, precision)
    read = read_folder(half).transformer.named_parameters()
    for (name, found), exact in zip(read, read_folder(whole).transformer.parameters(), strict=True):
        assert found.dtype == torch.float32 and torch.equal(found, exact.to(rounded).float()), name


def test_a_run_of_a_recipe_has_everything(
    tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """settings.json has paths from the root of its checkout, which need not be the current one;
    score.json has the scores."""
    small = small_model(tmp_path / "my exp")
    (tmp_path / "here" / "else where" / "bin").mkdir(parents=True)  # of another training
    monkeypatch.chdir(tmp_path / "here")
    run = tmp_path / "my exp" / "tiny-1"
    run.mkdir()
    small.checkpoint.rename(run / "average.pt")
    small.codes.rename(small.data / "codes")
    note = {"pieces": "byte_pairs", "normalize": True, "lowercase": False}
    (small.data / "text.json").write_text(json.dumps(note))
    search = "fairseq-generate 'else where/bin' --path 'else where/tiny-1/average.pt'"
    settings = {"system": "aiayn", "corpus": "invented", "commands": {"generate": search}}
    (run / "settings.json").write_text(json.dumps(settings))
    score = {"score": 24.2345, "signature": "case:mixed"}
    (run / "score.json").write_text(json.dumps({"paper": score, "sacrebleu": score}))
    status = cli.main(["export", str(run), "--output", str(tmp_path / "out"), "--licence", "CC0"])
    assert (status, capsys.readouterr().err) == (0, "")
    config = read_folder(tmp_path / "out").config
    assert config.text.normalize and config.told["licence"] == "CC0"
    assert config.told["scores"].startswith("BLEU 24.23 (case:mixed), BLEU 24.23")
    assert "BLEU 24.23" in (tmp_path / "out" / "README.md").read_text()
    (run / "score.json").write_text(json.dumps({"paper": "none", "sacrebleu": {"score": 1.5}}))
    assert cli.main(["export", str(run), "--output", str(tmp_path / "again")]) == 0
    assert read_folder(tmp_path / "again").config.told["scores"] == "BLEU 1.50 (None)"


@pytest.mark.parametrize("checkpoint", ["average.pt", "checkpoints/checkpoint_last.pt"])
@pytest.mark.parametrize("part", ["", "test"])  # translations; a parser's search
def test_every_kind_of_run_is_exported_with_its_own_text(
    tmp_path: Path, capsys: pytest.CaptureFixture, checkpoint: str, part: str
) -> None:
    """Breaks if the text of another training is taken, which has as many types."""
    small = small_model(tmp_path / "prepared")
    run = tmp_path / "exp" / "tiny-1"
    (run / checkpoint).parent.mkdir(parents=True)
    (tmp_path / "exp" / small.data.name).mkdir()  # of other runs
    small.checkpoint.rename(run / checkpoint)
    (small.data / "sha256").write_text("0ff  -\n")
    search = f"fairseq-generate {small.data} --path {run}/{checkpoint}"
    settings = {"system": "aiayn", "text_sha256": "0ff", "commands": {"generate": search}}
    (run / part).mkdir(exist_ok=True)
    (run / part / "settings.json").write_text(json.dumps(settings))
    for given, name in ((run, "first"), (run / part, "second")):
        assert cli.main(["export", str(given), "--output", str(tmp_path / name)]) == 0
        assert read_folder(tmp_path / name).source == read_vocabulary(small.data / "dict.en.txt")
    (small.data / "sha256").write_text("0dd  -\n")
    capsys.readouterr()
    assert cli.main(["export", str(run), "--output", str(tmp_path / "third")]) == 2
    message = f"{small.data}: must be the text that {run} was trained on, has been made anew since"
    assert capsys.readouterr().err == f"aiayn export: {message}\n"


def test_the_card_has_all_that_makes_a_batch(tmp_path: Path) -> None:
    config = read_folder(small_model(tmp_path / "model").export(tmp_path / "folder")).config
    options = {"max_tokens": 3572, "update_freq": [7], "distributed_world_size": 2}
    card = model_card(replace(config, options=options), parameters=1)
    assert "- --max-tokens: 3572\n- --update-freq: 7\n- processes: 2\n" in card


@pytest.mark.parametrize("kind", ["keys unlike values", "parser"])
def test_the_card_has_a_command_that_works(
    kind: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    aiayn: Callable[..., tuple[int, str, str]],
    give: Callable[..., None],
) -> None:
    folder = small_model(tmp_path / "model", kind).export(tmp_path / "THIS_FOLDER")
    words = re.search(r"(?m)^    aiayn (.*) < text$", (folder / "README.md").read_text())[1]
    monkeypatch.chdir(tmp_path)
    give("the cat\n")
    status, output, _ = aiayn(*words.split())
    assert (status, output.count("\n")) == (0, 1)

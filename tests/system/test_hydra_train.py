"""fairseq-hydra-train with the file of docs/distributed.md, and what follows a training."""

import re

import pytest
from fairseq_commands import ROOT, TRANSLATE, parameters
from omegaconf import OmegaConf

from fairseq_aiayn.checkpoints import read_checkpoint
from fairseq_aiayn.configuration import flat_options, plain_configuration
from fairseq_aiayn.paper import BASE, ROWS
from fairseq_aiayn.settings import argument, regime_options

pytestmark = pytest.mark.needs_repairs


@pytest.fixture
def hydra(run, data_bin, tmp_path, monkeypatch):
    page = (ROOT / "docs" / "distributed.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"^```yaml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "base.yaml").write_text(text)
    (tmp_path / "bin").symlink_to(data_bin)
    monkeypatch.chdir(tmp_path)
    words = ["fairseq-hydra-train", "--config-dir", tmp_path, "--config-name", "base"]
    words += [f"common.user_dir={ROOT / 'fairseq_aiayn'}", "common.fp16=false", "common.cpu=true"]
    return lambda *more, fails=False: run(*words, "dataset.num_workers=0", *more, fails=fails)


def test_the_pages_file_trains_goes_on_and_translates(hydra, run, tmp_path):
    row = ROWS["parsing_tiny"]
    small = [
        f"model._name={row.arch}",
        "+model.share_all_embeddings=true",
        "dataset.max_tokens=600",
    ]
    small += ["+model.encoder_layers=1", "optimization.update_freq=[1]"]
    hydra(*small, "optimization.max_update=2")
    log = hydra(*small, "optimization.max_update=3", "+criterion.label_smoothing=0.3").stdout
    assert "(epoch 1 @ 2 updates)" in log and "peak memory" in log
    parameters(tmp_path / "ck", 3)
    checkpoint = tmp_path / "ck" / "checkpoint_last.pt"
    options = flat_options(plain_configuration(read_checkpoint(checkpoint)))
    expected = {"arch": row.arch, "d_model": row.d_model, "label_smoothing": 0.3}
    expected |= {"lr_factor": row.lr_factor, "warmup_updates": row.warmup}
    assert {name: options[name] for name in expected} == expected
    found = run("fairseq-generate", "bin", *TRANSLATE, "--path", checkpoint).stdout
    assert found.count("\nH-") == 20
    run("aiayn", "export", "--checkpoint", checkpoint, "--data-bin", "bin", "--output", "folder")
    assert len(run("aiayn", "translate", "folder", stdin="w1 w2\n").stdout.splitlines()) == 1


def test_the_pages_file_has_the_regime_of_base(hydra, tmp_path):
    given = OmegaConf.to_container(OmegaConf.load(tmp_path / "base.yaml"))
    options = flat_options(given | {"generation": {}})
    expected = {argument(name): value for name, value in regime_options(BASE, gpus=1).items()}
    expected |= {"arch": BASE.arch, "update_freq": [expected["update_freq"]]}
    shared = {*options} & {*expected}
    assert len(shared) == 7 and all(options[name] == expected[name] for name in shared)


def test_what_is_refused_names_what_to_type(hydra):
    error = hydra("model._name=aiayn_bgi", fails=True).stderr
    assert "\nfairseq-hydra-train: error: model._name: expected aiayn_big" in error
    assert "Traceback" not in error

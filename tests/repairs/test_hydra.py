"""Configurations of fairseq-hydra-train, as they are when it has imported the plugin."""

import re
import sys

import pytest
from fairseq.dataclass.configs import FairseqConfig
from omegaconf import OmegaConf
from originals import original

import fairseq_aiayn.plugin  # noqa: F401
from fairseq_aiayn.paper import ROWS
from fairseq_aiayn.repairs.errors import with_last_line
from fairseq_aiayn.repairs.hydra import completing_early
from fairseq_aiayn.repairs.patches import PATCHES
from fairseq_aiayn.repairs.program import hydra_names

NAMES = {
    "task": "aiayn_translation",
    "model": "aiayn_d_ls02",
    "criterion": "aiayn_label_smoothed_cross_entropy",
    "optimizer": "aiayn_adam",
    "lr_scheduler": "aiayn_inverse_sqrt",
}


@pytest.fixture
def complete(monkeypatch):
    """Return a function from what a user gives beside NAMES to the whole configuration."""
    monkeypatch.setattr(sys, "argv", ["fairseq-hydra-train"])
    (patch,) = PATCHES["hydra"]

    def run(*given: str):
        cfg = OmegaConf.merge(
            OmegaConf.structured(FairseqConfig),
            {group: {"_name": name} for group, name in NAMES.items()},
            {"task": {"data": "nowhere", "max_source_positions": 99}},
            OmegaConf.from_dotlist([*given]),
        )
        cfg = OmegaConf.create(OmegaConf.to_container(cfg, resolve=True))
        OmegaConf.set_struct(cfg, True)  # as fairseq_cli.hydra_train does
        completing_early(original(patch), cfg)
        return cfg

    yield run
    hydra_names.clear()


@pytest.mark.parametrize("name", ["d_ls02", "big", "parsing", "multi30k_tiny", "e_learned"])
def test_a_row_sets_what_is_outside_the_model_too(complete, name):
    row = ROWS[name]
    cfg = complete(f"model._name={row.arch}")
    assert cfg.criterion.label_smoothing == row.epsilon_ls
    schedule = cfg.lr_scheduler
    assert (schedule.warmup_updates, schedule.lr_factor) == (row.warmup, row.lr_factor)
    assert schedule.d_model == cfg.model.encoder_embed_dim == row.d_model
    assert cfg.model.learned_positions == row.learned_positions
    assert cfg.model.max_source_positions == 99
    assert getattr(cfg.model, "base_layers", 0) == 0, "as fairseq's trainer asks"
    assert "Choices" not in str(cfg.model) and "${" not in str(cfg.model), "as the log has it"


def test_what_is_given_wins(complete):
    given = ("criterion.label_smoothing=0.3", "lr_scheduler.warmup_updates=7", "model.d_k=5")
    cfg = complete(*given, "model.decoder_embed_dim=64", "model.untied_embeddings=true")
    assert (cfg.criterion.label_smoothing, cfg.lr_scheduler.warmup_updates) == (0.3, 7)
    assert (cfg.model.d_k, cfg.model.encoder_embed_dim, cfg.lr_scheduler.d_model) == (5, 64, 64)
    assert (cfg.model.untied_embeddings, cfg.model.share_all_embeddings) == (True, False)
    cfg = complete("model._name=aiayn_e_learned", "model.learned_positions=false")
    assert cfg.model.learned_positions is False


def test_stock_models_and_stock_losses_keep_their_own(complete):
    cfg = complete("model._name=transformer", "lr_scheduler.d_model=32")
    assert (cfg.criterion.label_smoothing, cfg.lr_scheduler.d_model) == (None, 32)
    cfg = complete("criterion._name=label_smoothed_cross_entropy")
    assert cfg.criterion.label_smoothing == 0.0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("model._name=aiayn_bgi", "model._name: expected aiayn_big"),
        (
            "criterion._name=aiayn_smoothed_cross_entropy",
            "criterion._name: expected aiayn_label_smoothed_cross_entropy",
        ),
        ("model.encoder_layrs=3", "model: expected encoder_layers"),
        ("lr_scheduler.warmup=3", "lr_scheduler: expected warmup_updates"),
        ("task.data=null", "task.data: expected what fairseq-preprocess wrote"),
        ("lr_scheduler=null", "lr_scheduler._name: expected a name, such as aiayn_inverse_sqrt"),
        ("model.d_k=six", "model.d_k: Value 'six'"),
        ("model.initialization=zeros", "model.initialization: Invalid value 'zeros'"),
        ("model.encoder_layers=3 model.decoder_layers=4", "model.encoder_layers 3 and model.dec"),
        ("lr_scheduler.d_model=3", "lr_scheduler.d_model 3 .* model.encoder_embed_dim 512"),
        ("model.share_all_embeddings=false", "model.share_all_embeddings false: expected"),
        ("checkpoint.best_checkpoint_metric=bleu", "expected task.eval_bleu, too"),
    ],
)
def test_what_cannot_be_had_is_refused_in_one_line(complete, capsys, given, message):
    with pytest.raises(ValueError) as caught:
        complete(*given.split())
    with_last_line("fairseq-hydra-train", sys.__excepthook__, {})(
        caught.type, caught.value, caught.tb
    )
    (line,) = capsys.readouterr().err.splitlines()
    assert re.search(message, line)
    assert "--" not in line

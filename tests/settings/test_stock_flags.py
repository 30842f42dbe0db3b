"""The flags of a row for stock fairseq: what fairseq's own parser and model make of them."""

import ast
from argparse import Namespace
from collections.abc import Callable
from dataclasses import replace

import building
import pytest
import torch
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.models.transformer import TransformerModel
from fairseq.modules import LearnedPositionalEmbedding

from fairseq_aiayn.cli.main import main
from fairseq_aiayn.paper import ROWS, Row, learning_rate
from fairseq_aiayn.settings import stock_flags, train_flags

REFUSED = ["b_dk16", "b_dk32"]
EXPRESSIBLE = [row for name, row in ROWS.items() if name not in REFUSED]


def parse(row: Row) -> Namespace:
    """What fairseq-train makes of the row's flags on 8 GPUs."""
    return building.parse(*stock_flags(row, gpus=8))


def build(args: Namespace, joined: bool) -> TransformerModel:
    """Stock fairseq's model, without memory for its weights."""
    target = None if joined else building.dictionary(["NP", "VP"])
    task = building.dictionaries_task(building.dictionary(["word"]), target)
    with torch.device("meta"):
        return ARCH_MODEL_REGISTRY[args.arch].build_model(args, task)


@pytest.mark.parametrize("row", EXPRESSIBLE, ids=lambda row: row.name)
def test_stock_fairseq_builds_the_rows_shape(row: Row) -> None:
    """Breaks if a size is left to the --arch, the heads have another size, positions are of the
    wrong kind or the matrices of section 3.4 are not tied."""
    model = build(parse(row), row.shared_vocabulary)
    assert type(model) is TransformerModel
    for stack in (model.encoder, model.decoder):
        assert len(stack.layers) == row.N
        layer = stack.layers[0]
        assert (layer.self_attn.num_heads, layer.self_attn.head_dim) == (row.h, row.d_k)
        assert layer.self_attn.v_proj.weight.shape == (row.h * row.d_v, row.d_model)
        assert layer.fc1.weight.shape == (row.d_ff, row.d_model)
        assert layer.dropout_module.p == row.P_drop
        assert layer.self_attn.dropout_module.p == 0.0
        assert not layer.normalize_before
        learned = isinstance(stack.embed_positions, LearnedPositionalEmbedding)
        assert learned == row.learned_positions
    target = model.decoder.embed_tokens.weight
    assert model.decoder.output_projection.weight is target
    assert (model.encoder.embed_tokens.weight is target) == row.shared_vocabulary


@pytest.mark.parametrize("name", ["base", "big_en_fr", "c_dmodel256", "d_ls0", "parsing", "tiny"])
def test_the_regime_is_the_rows(name: str) -> None:
    """Breaks if the two systems train differently where stock fairseq could do as the paper."""
    row = ROWS[name]
    config = convert_namespace_to_omegaconf(parse(row))
    peak = max(learning_rate(step, row.d_model, row.warmup) for step in range(1, 2 * row.warmup))
    assert config.optimization.lr == [pytest.approx(peak, rel=1e-8)]
    assert config.lr_scheduler._name == "inverse_sqrt"
    assert config.lr_scheduler.warmup_updates == row.warmup
    assert config.lr_scheduler.warmup_init_lr == 1e-7
    assert config.criterion._name == "label_smoothed_cross_entropy"
    assert config.criterion.label_smoothing == row.epsilon_ls
    assert (config.optimizer._name, config.optimizer.adam_eps) == ("adam", 1e-9)
    assert ast.literal_eval(config.optimizer.adam_betas) == (0.9, 0.98)
    assert config.optimization.max_update == row.steps
    batch = 8 * config.dataset.max_tokens * config.optimization.update_freq[0]
    assert abs(batch / row.batch_tokens - 1) < 0.01


@pytest.mark.parametrize("name", REFUSED)
def test_heads_that_stock_fairseq_does_not_have_are_refused(
    name: str, refused: Callable[..., str]
) -> None:
    """Breaks if base is trained in silence in place of the row."""
    assert refused("flags", name, "--gpus", "8", "--system", "stock") == (
        f"aiayn flags: row {name} has d_k {ROWS[name].d_k} and d_v 64;"
        " a head of stock fairseq has d_model / h = 512 / 8 = 64 for both"
    )


def test_the_command_prints_the_system_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    """Breaks if stock's flags become the default, or --max-tokens or --lr-factor gets lost on the
    way."""
    row = replace(ROWS["base"], lr_factor=0.5)
    asked = ["flags", "base", "--gpus", "4", "--max-tokens", "3125", "--lr-factor", "0.5"]
    for system, flags in (([], train_flags), (["--system", "stock"], stock_flags)):
        assert main([*asked, *system]) == 0
        assert capsys.readouterr().out == " ".join(flags(row, 4, 3125)) + "\n"

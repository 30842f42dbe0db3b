"""Section 5 as flags of fairseq, ours and stock's: what fairseq's parser and models make of them,
and the paper's batch on any number of GPUs."""

import ast
import re
from dataclasses import replace

import pytest
import torch
from building import dictionaries_task, dictionary, parse
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.models.transformer import TransformerModel
from fairseq.modules import LearnedPositionalEmbedding
from hypothesis import given
from hypothesis import strategies as st

from fairseq_aiayn.paper import ROWS, learning_rate
from fairseq_aiayn.settings import batch, stock_flags, train_flags, with_budget

SYSTEMS = {"ours": train_flags, "stock": stock_flags}
# Those that stock fairseq has a name for, one for each size, and what is no size
SHAPES = ["base", "big", "big_en_fr", "a_h4", "c_n2", "c_dmodel256", "c_dff1024", "d_drop0"]
SHAPES += ["e_learned", "parsing", "tiny"]


@pytest.mark.parametrize("name", ["base", "big_en_fr", "c_dmodel256", "d_ls0", "parsing", "tiny"])
@pytest.mark.parametrize("system", SYSTEMS)
def test_the_regime_of_a_row_reaches_fairseqs_configuration(system, name):
    """Breaks if systems train differently where stock fairseq could do as the paper."""
    row = ROWS[name]
    words = SYSTEMS[system](row, gpus=8)
    assert not any(re.search(r"[\s'\"()$]", word) for word in words), "a shell needs no quotes"
    args = parse(*words)
    assert parse(*words, "--no-epoch-checkpoints") == args, "as a recipe may give it, too"
    config = convert_namespace_to_omegaconf(args)
    prefix = "aiayn_" if system == "ours" else ""
    assert config.criterion._name == f"{prefix}label_smoothed_cross_entropy"
    assert config.criterion.label_smoothing == row.epsilon_ls
    assert config.lr_scheduler._name == f"{prefix}inverse_sqrt"
    assert config.lr_scheduler.warmup_updates == row.warmup
    assert (config.optimizer._name, config.optimizer.adam_eps) == (f"{prefix}adam", 1e-9)
    assert ast.literal_eval(config.optimizer.adam_betas) == (0.9, 0.98)
    assert config.optimization.clip_norm == config.optimizer.get("weight_decay", 0.0) == 0.0
    assert config.optimization.max_update == row.steps
    assert config.model.dropout == row.P_drop
    assert config.checkpoint.save_interval_updates == row.checkpoint_updates
    assert config.checkpoint.no_epoch_checkpoints, "a small text has thousands of epochs"
    assert config.checkpoint.keep_interval_updates >= row.averaged
    tokens = 8 * config.dataset.max_tokens * config.optimization.update_freq[0]
    assert abs(tokens / row.batch_tokens - 1) < 0.01
    if system == "ours":
        rate = (config.lr_scheduler.d_model, config.lr_scheduler.lr_factor)
        assert (config.model._name, *rate) == (row.arch, row.d_model, row.lr_factor)
    else:
        steps = range(1, 2 * row.warmup)
        peak = max(learning_rate(step, row.d_model, row.warmup, row.lr_factor) for step in steps)
        assert [*config.optimization.lr] == [pytest.approx(peak, rel=1e-8)]
        assert config.lr_scheduler.warmup_init_lr == 1e-7


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("base --gpus 64", "are good for 48 GPUs"),
        ("parsing_tiny --gpus 8", "are good for 4 GPUs"),
        ("tiny --gpus 1", ""),
        ("base --gpus 1 --max-update 4000", "a warm-up of 400 would be a tenth"),
        ("base --gpus 8 --max-update 4001", ""),
    ],
)
def test_what_a_training_would_lose_is_said(aiayn, options, said):
    """Sentences longer than a GPU's share of the batch, and all that comes after a warm-up."""
    status, _, note = aiayn("flags", *options.split())
    assert status == 0 and said in note and bool(note) is bool(said)


@pytest.mark.parametrize("name", SHAPES)
def test_stock_fairseq_builds_the_rows_shape(name):
    row = ROWS[name]
    args = parse(*stock_flags(row, gpus=8))
    target = None if row.shared_vocabulary else dictionary(["NP", "VP"])
    task = dictionaries_task(dictionary(["word"]), target)
    with torch.device("meta"):
        model = ARCH_MODEL_REGISTRY[args.arch].build_model(args, task)
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


@given(st.integers(1, 200), st.integers(1, 10**6))
def test_a_batch_is_the_papers_on_any_number_of_gpus(gpus, batch_tokens):
    row = replace(ROWS["base"], batch_tokens=batch_tokens)
    if gpus > max(1, batch_tokens // 16):
        with pytest.raises(ValueError, match=f"at most {max(1, batch_tokens // 16)} GPUs"):
            batch(row, gpus)
        return
    max_tokens, update_freq = batch(row, gpus)
    assert gpus == 1 or gpus * max_tokens * update_freq <= 1.1 * batch_tokens
    assert 0 <= gpus * max_tokens * update_freq - batch_tokens < gpus * update_freq
    assert 1 <= max_tokens <= 4096
    assert update_freq == 1 or gpus * 4096 * (update_freq - 1) < batch_tokens


def test_a_given_max_tokens_comes_near_or_is_refused():
    """The frequency is rounded to the nearer: 8 · 410 · 7.6, 4 · 2000 · 3.1; the advice works."""
    for gpus, max_tokens, update_freq in ((8, 3125, 1), (1, 3125, 8), (4, 2000, 3), (8, 410, 8)):
        assert batch(ROWS["base"], gpus, max_tokens) == (max_tokens, update_freq)
    for gpus, max_tokens, message in (
        (8, 4096, r"8 GPUs x 4096 tokens x update frequency 1 = 32,768 .* \+31% from the 25,000"),
        (3, 5000, r"3 GPUs x 5000 tokens x update frequency 2 = 30,000 .* \+20% from the 25,000"),
    ):
        with pytest.raises(ValueError, match=message) as refusal:
            batch(ROWS["base"], gpus, max_tokens)
        batch(ROWS["base"], gpus, int(re.search(r"try --max-tokens (\d+)", str(refusal.value))[1]))
    for gpus, max_tokens in ((20_000, None), (int("9" * 400), None), (int("9" * 400), 4096)):
        with pytest.raises(ValueError, match="at most 1562 GPUs.* a batch of 25,000 tokens"):
            batch(ROWS["base"], gpus, max_tokens)
    for gpus, max_tokens in ((0, None), (1, 0)):
        with pytest.raises(ValueError, match="expected at least 1"):
            batch(ROWS["base"], gpus, max_tokens)


def test_a_budget_changes_what_it_names_and_scales_checkpoints():
    """5,000 of 100,000 updates have checkpoints every 75 instead of 1,500; never every 0."""
    base = ROWS["base"]
    assert with_budget(base, steps=None, lr_factor=None) == base
    given = {"steps": 5_000, "warmup": 400, "batch_tokens": 4_096}
    assert with_budget(base, **given) == replace(base, **given, checkpoint_updates=75)
    assert with_budget(base, lr_factor=0.5) == replace(base, lr_factor=0.5)
    assert with_budget(base, steps=10).checkpoint_updates == 1
    assert with_budget(base, steps=5_000, checkpoint_updates=7).checkpoint_updates == 7


def test_the_command_prints_the_flags_of_the_system_asked_for(aiayn, refused):
    row = replace(ROWS["base"], lr_factor=0.5)
    asked = ["flags", "base", "--gpus", 4, "--max-tokens", 3125, "--lr-factor", 0.5]
    for system, flags in (([], train_flags), (["--system", "stock"], stock_flags)):
        assert aiayn(*asked, *system) == (0, " ".join(flags(row, 4, 3125)) + "\n", "")
    for name in ("b_dk16", "b_dk32"):
        line = refused("flags", name, "--gpus", 8, "--system", "stock")
        assert f"row {name} has d_k {ROWS[name].d_k} and d_v 64; a head of stock fairseq" in line
    options = ("--max-update", "--warmup-updates", "--batch-tokens", "--save-interval-updates")
    for option, value in (*((option, 0) for option in options), ("--lr-factor", "nan")):
        line = refused("flags", "base", "--gpus", 1, option, value)
        assert line.startswith(f"aiayn flags: {option}: expected ")


def test_the_search_is_that_of_the_rows_task(aiayn, refused):
    for row, beam, alpha, extra in (("base", 4, 0.6, 50), ("parsing", 21, 0.3, 300)):
        words = f"--beam {beam} --lenpen {alpha} --max-len-a 1 --max-len-b {extra}\n"
        assert aiayn("flags", row, "--search") == (0, words, "")
    for option in ("--max-update", "--max-tokens"):
        assert "--search: " in refused("flags", "base", "--search", option, 9)

"""Every row: --arch builds its model; it differs from base in the cells that the paper prints."""

from dataclasses import asdict

import pytest
from building import TYPES, build, count, parse
from fairseq.models import ARCH_MODEL_REGISTRY

from fairseq_aiayn import paper
from fairseq_aiayn.cost import parameters
from fairseq_aiayn.paper import find_row
from fairseq_aiayn.plugin.model import AiaynModel

# Seconds between checkpoints (section 6.1); a step takes 0.4 or 1.0 (section 5.2)
TEN_MINUTES = 600
# Copied from the paper, not from paper.py: the printed cells of every row of Table 3, with PPL,
# BLEU and 10⁶ parameters
TABLE_3 = {
    "aiayn_base": ({"averaged": 5}, (4.92, 25.8, 65)),
    "aiayn_a_h1": ({"h": 1, "d_k": 512, "d_v": 512}, (5.29, 24.9, None)),
    "aiayn_a_h4": ({"h": 4, "d_k": 128, "d_v": 128}, (5.00, 25.5, None)),
    "aiayn_a_h16": ({"h": 16, "d_k": 32, "d_v": 32}, (4.91, 25.8, None)),
    "aiayn_a_h32": ({"h": 32, "d_k": 16, "d_v": 16}, (5.01, 25.4, None)),
    "aiayn_b_dk16": ({"d_k": 16}, (5.16, 25.1, 58)),
    "aiayn_b_dk32": ({"d_k": 32}, (5.01, 25.4, 60)),
    "aiayn_c_n2": ({"N": 2}, (6.11, 23.7, 36)),
    "aiayn_c_n4": ({"N": 4}, (5.19, 25.3, 50)),
    "aiayn_c_n8": ({"N": 8}, (4.88, 25.5, 80)),
    "aiayn_c_dmodel256": ({"d_model": 256, "d_k": 32, "d_v": 32}, (5.75, 24.5, 28)),
    "aiayn_c_dmodel1024": ({"d_model": 1024, "d_k": 128, "d_v": 128}, (4.66, 26.0, 168)),
    "aiayn_c_dff1024": ({"d_ff": 1024}, (5.12, 25.4, 53)),
    "aiayn_c_dff4096": ({"d_ff": 4096}, (4.75, 26.2, 90)),
    "aiayn_d_drop0": ({"P_drop": 0.0}, (5.77, 24.6, None)),
    "aiayn_d_drop02": ({"P_drop": 0.2}, (4.95, 25.5, None)),
    "aiayn_d_ls0": ({"epsilon_ls": 0.0}, (4.67, 25.3, None)),
    "aiayn_d_ls02": ({"epsilon_ls": 0.2}, (5.47, 25.7, None)),
    "aiayn_e_learned": ({"learned_positions": True}, (4.92, 25.7, None)),
    "aiayn_big": (
        {"d_model": 1024, "d_ff": 4096, "h": 16, "P_drop": 0.3, "steps": 300_000}
        | {"averaged": 20, "checkpoint_updates": TEN_MINUTES / 1.0},
        (4.33, 26.4, 213),
    ),
}
# Sections 6.1 and 6.3
OTHERS = {
    "aiayn_big_en_fr": {**TABLE_3["aiayn_big"][0], "P_drop": 0.1},
    "aiayn_parsing": {"N": 4, "d_model": 1024, "d_k": 128, "d_v": 128}
    | {"shared_vocabulary": False, "warmup": 16_000, "averaged": 5},
}
# Sections 3 and 5
BASE = {"N": 6, "d_model": 512, "d_ff": 2048, "h": 8, "d_k": 64, "d_v": 64, "P_drop": 0.1}
BASE |= {"epsilon_ls": 0.1, "steps": 100_000, "warmup": 4000, "batch_tokens": 25_000}
BASE |= {"learned_positions": False, "shared_vocabulary": True}
BASE |= {"averaged": 1, "checkpoint_updates": TEN_MINUTES / 0.4}  # 1: the variations of Table 3
SMALL = ["aiayn_tiny", "aiayn_parsing_tiny", "aiayn_multi30k_tiny", "aiayn_demo"]
ARCHES = [*TABLE_3, *OTHERS, *SMALL]


@pytest.mark.parametrize("arch", [*TABLE_3, *OTHERS])
def test_row_differs_from_base_only_in_its_printed_cells(arch: str) -> None:
    """Breaks if a row is derived from another than base, or a number is wrong or elsewhere."""
    row = find_row(arch)
    cells, figures = TABLE_3[arch] if arch in TABLE_3 else (OTHERS[arch], (None, None, None))
    assert {symbol: getattr(row, symbol) for symbol in BASE} == {**BASE, **cells}
    assert (row.published.ppl, row.published.bleu, row.published.parameters) == figures
    if figures[2]:
        # Whole millions are printed, so 36 may be 35.5. Breaks if the embeddings are not shared
        # three ways or d_v follows d_k (rows B), with a vocabulary of 37,000
        millions = parameters(row, 37_000) / 1e6
        assert 0.94 * (figures[2] - 0.5) < millions < 1.06 * (figures[2] + 0.5)


def test_figures_of_the_transformer_in_tables_2_and_4() -> None:
    figures = [tuple(asdict(model).values()) for model in paper.TABLE_2[-2:]]
    assert figures == [
        ("Transformer (base)", 27.3, 38.1, 3.3e18, None),
        ("Transformer (big)", 28.4, 41.8, 2.3e19, None),
    ]
    own = {row.training: row.f1 for row in paper.TABLE_4 if "Transformer" in row.parser}
    assert own == {"WSJ only, discriminative": 91.3, "semi-supervised": 92.7}
    assert (paper.VOCABULARY_WSJ, paper.VOCABULARY_SEMI_SUPERVISED) == (16_000, 32_000)


def test_the_tables_show_what_sections_6_1_and_6_3_say_of_them() -> None:
    """Breaks if a figure of another model is in the wrong row or column."""
    *others, base, big = paper.TABLE_2
    german = [model.bleu_en_de for model in others if model.bleu_en_de]
    assert base.bleu_en_de > max(german) and big.bleu_en_de > max(german) + 2.0
    single = [model.bleu_en_fr for model in others if "ensemble" not in model.model]
    assert big.bleu_en_fr > max(filter(None, single))
    assert base.flops_en_de < min(model.flops_en_de for model in others if model.flops_en_de)
    for training, better in ((paper.WSJ_ONLY, ["Dyer et al. (2016)"]), (paper.SEMI_SUPERVISED, [])):
        rows = {row.parser: row.f1 for row in paper.TABLE_4 if row.training == training}
        own = rows[paper.TRANSFORMER_PARSER]
        assert [parser for parser, f1 in rows.items() if f1 > own] == better


@pytest.mark.parametrize("arch", ARCHES)
def test_arch_builds_its_row(arch: str) -> None:
    """Breaks if an option becomes the wrong symbol, or `aiayn rows` counts wrongly."""
    assert ARCH_MODEL_REGISTRY[arch] is AiaynModel
    row = find_row(arch)
    training = ("--lr-scheduler", "aiayn_inverse_sqrt")
    training += ("--criterion", "aiayn_label_smoothed_cross_entropy")
    args = parse("--arch", arch, *training)
    model = build(args)
    for stack in (model.encoder.stack, model.decoder.stack):
        assert len(stack.layers) == row.N
        layer = stack.layers[0]
        assert layer.self_attention.h == row.h
        rows = (row.h * row.d_k, row.h * row.d_k, row.h * row.d_v)
        assert layer.self_attention.projection_sizes == rows
        assert layer.self_attention.W_QKV.weight.shape == (sum(rows), row.d_model)
        assert layer.feed_forward.W_1.weight.shape == (row.d_ff, row.d_model)
        assert stack.dropout.p == layer.feed_forward_norm.dropout.p == row.P_drop
        learned = [name for name, _ in stack.position.named_parameters()]
        assert bool(learned) == row.learned_positions
        assert layer.self_attention.attention_dropout == 0.0
    assert args.d_model == row.d_model, "the schedule's d_model"
    assert (args.warmup_updates, args.lr_factor) == (row.warmup, row.lr_factor)
    assert (args.label_smoothing, args.initialization) == (row.epsilon_ls, row.initialization)
    assert count(model) == parameters(row, TYPES)

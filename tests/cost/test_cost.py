"""Training cost: the count of FLOPs against PyTorch's own, the paper's rule against Table 2; what
`aiayn cost` and `aiayn rows` print."""

import json
import re
from collections.abc import Callable
from dataclasses import asdict
from unittest.mock import patch

import pytest
import torch
import torch.nn.functional as F
from building import build, parse
from torch.utils.flop_counter import FlopCounterMode

from fairseq_aiayn import cost
from fairseq_aiayn.nn import cpu_kernels
from fairseq_aiayn.nn.attention import attention
from fairseq_aiayn.paper import ROWS, SUSTAINED_TFLOPS, TABLE_2, TABLE_3, TRANSLATION, find_row

V = 50
SENTENCES = 3


def count(run: Callable[[], object]) -> int:
    """FLOPs of the matrix products that PyTorch sees."""
    with (
        patch.object(cpu_kernels, "fits_onednn", lambda *_: False),
        FlopCounterMode(display=False) as counter,
    ):
        run()
    return counter.get_total_flops()


def test_ten_rows_have_the_printed_parameters_in_the_authors_code_and_big_has_not():
    """Breaks if a part of the authors' model is left out: without the biases d_ff = 1024 is 52.49M,
    printed as 53M; or if d_v, or d_model, is taken for d_k: 18 attentions, two biases of 8 keys of
    16."""
    printed = {row.name: row.published.parameters for row in TABLE_3 if row.published.parameters}
    found = {name: round(cost.authors_parameters(ROWS[name]) / 1e6) for name in printed}
    assert len(found) == 11 and found == {**printed, "big": 218}
    row = ROWS["b_dk16"]
    biases = (
        cost.authors_parameters(row)
        - cost.parameters(row, cost.VOCABULARY)
        - cost.TARGET_SPACES * 512
    )
    assert biases == 18 * (2 * 8 * 16 + 8 * 64 + 512)
    for name in ("e_learned", "big_en_fr", "parsing", "tiny"):
        assert cost.authors_parameters(ROWS[name]) is None


@pytest.mark.parametrize(("name", "length"), [("tiny", 30), ("b_dk16", 7), ("parsing", 7)])
def test_the_count_is_pytorchs_to_the_last_flop(name, length, monkeypatch):
    """Breaks if a product is forgotten or counted twice, d_v follows d_k, a multiply-add is one
    FLOP, attention is not quadratic in the length or the backward pass not twice the forward."""
    # PyTorch counts the products of only some of its kernels
    monkeypatch.setattr(F, "scaled_dot_product_attention", lambda Q, K, V, **_: attention(Q, K, V))
    row, shape = find_row(name), (SENTENCES, length)
    model = build(parse("--arch", row.arch), V).transformer
    tokens = torch.zeros(shape, dtype=torch.long, device="meta")
    forward = count(lambda: model(tokens, tokens))
    assert forward == tokens.numel() * sum(cost.forward_flops(row, V, length))
    both = count(lambda: model(tokens, tokens).sum().backward())
    assert both * row.steps * row.batch_tokens == tokens.numel() * cost.training_flops(
        row, V, length
    )
    longer = cost.forward_flops(row, V, 4 * length)  # Table 1: O(n·d) per token, in attention alone
    assert longer.attention == 4 * cost.forward_flops(row, V, length).attention


def test_the_estimate_is_the_papers():
    """Breaks if a variation inherits base's 12 hours, or time or GPUs are not the paper's."""
    stated = {name for name, row in ROWS.items() if cost.paper_estimate(row, 1) is not None}
    assert stated == {"base", "big", "big_en_fr"}
    for name in ("base", "big"):
        printed = next(each.flops_en_de for each in TABLE_2 if each.model.endswith(f"({name})"))
        own = cost.paper_estimate(ROWS[name], cost.training_flops(ROWS[name], 37_000, 30))
        assert f"{own.flops:.1e}" == f"{printed:.1e}" and 0.2 < own.utilisation < 0.5
    assert SUSTAINED_TFLOPS == {"K80": 2.8, "K40": 3.7, "M40": 6.0, "P100": 9.5}


def test_the_table_and_json_show_the_estimate(aiayn):
    status, printed, _ = aiayn("cost", "base")
    lines = {" ".join(line.split()) for line in printed.splitlines()}
    assert status == 0 and lines >= {
        "GPUs 8 x P100",
        "hours 12",
        "TFLOPS of a GPU, single precision 9.5 sustained",
        "training FLOPs by the paper's rule 3.3e18",
    }
    content = json.loads(aiayn("cost", "d_drop0", "--vocab", 100, "--length", 5, "--json")[1])
    assert content["training_flops"] == cost.training_flops(ROWS["d_drop0"], 100, 5)
    assert content["forward_flops"].pop("total") == sum(content["forward_flops"].values())
    assert content["paper"] is None


def test_a_number_without_sense_is_refused(refused):
    for words in (["--vocab", 0], ["--length", 0]):
        assert "at least one" in refused("cost", "base", *words)
    assert "did you mean base" in refused("cost", "aiayn_bsae")


@pytest.fixture
def printed(aiayn):
    return lambda *arguments: aiayn("rows", *arguments)[1]


def tables(text: str) -> list[list[list[str]]]:
    return [[re.split("  +", line) for line in table.splitlines()] for table in text.split("\n\n")]


def test_every_row_is_a_line_of_both_tables_that_100_columns_hold(printed):
    for names, shown in (((), [*ROWS]), (("big", "aiayn_base"), ["big", "base"])):
        text = printed("--vocab", "500", *names)
        for table in tables(text):
            assert [line[0] for line in table] == ["name", *shown]
        assert len(tables(text)) == 2
    assert max(map(len, printed().splitlines())) <= 100


def test_the_figures_of_base(printed):
    """Breaks if a column holds another's figure: all are known from the paper or counted
    above. Breaks if 5.00 becomes 5.0, or a row without a figure gets base's."""
    (names, sizes, *_), (header, base, a_h4, tiny) = tables(printed("base", "a_h4", "tiny"))
    expected = "name base, N 6, d_model 512, d_ff 2048, h 8, d_k 64, d_v 64, P_drop 0.1"
    expected += ", eps_ls 0.1, positions sinusoid, steps 100000, averaged 5"
    costs = "name base, params 63.05M, FLOPs/pair 127.07M, training 9.5e17, memory 0.94 GiB"
    costs += ", t2t 65.13M, paper 65M, PPL 4.92, BLEU 25.8"
    for columns, cells, text in ((names, sizes, expected), (header, base, costs)):
        assert ", ".join(map(" ".join, zip(columns, cells, strict=True))) == text
    assert a_h4[-3:] == ["65.13M", "5.00", "25.5"] and tiny[-1] == "0.22 GiB"


def test_json_has_every_cell_in_full(printed):
    rows = json.loads(printed("--vocab", str(V), "--json"))
    assert [row["name"] for row in rows] == list(ROWS)
    for found in rows:
        row = ROWS[found["name"]]
        assert found.items() >= (asdict(row) | cost.row_costs(row, V)).items()
        assert (found["arch"], found["vocabulary"]) == (row.arch, V)
        assert found["authors_parameters"] == cost.authors_parameters(row)
        assert found["decoding"]["beam"] == (21 if "parsing" in row.name else TRANSLATION.beam)

"""Training cost: the count of FLOPs against PyTorch's own, the paper's rule against Table 2."""

import json
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from fairseq_aiayn.cli.main import main
from fairseq_aiayn.cost import (
    GPUS,
    LATER,
    estimate,
    find_gpu,
    forward_flops,
    paper_estimate,
    training_flops,
)
from fairseq_aiayn.nn.attention import attention
from fairseq_aiayn.nn.layers import Dimensions
from fairseq_aiayn.nn.transformer import Transformer, create_transformer
from fairseq_aiayn.paper import ROWS, TABLE_2, Row, find_row

V = 50
SENTENCES = 3


def build(row: Row) -> Transformer:
    """The row's model over a small vocabulary."""
    sizes = {name: getattr(row, name) for name in ("N", "d_model", "d_ff", "h", "d_k", "d_v")}
    sharing = "all" if row.shared_vocabulary else "target"
    return create_transformer(
        Dimensions(**sizes, P_drop=row.P_drop), V, V, padding=1, sharing=sharing
    )


def logits(model: Transformer, length: int) -> Tensor:
    """Logits of SENTENCES sentence pairs without padding, of so many tokens on either side."""
    tokens = torch.zeros(SENTENCES, length, dtype=torch.long)
    return model(tokens, tokens)


@pytest.fixture
def plain_attention(monkeypatch: pytest.MonkeyPatch) -> None:
    """Equation 1 as written in place of the fused kernels, of which PyTorch counts only some."""

    def reference(Q: Tensor, K: Tensor, V: Tensor, **_: object) -> Tensor:
        return attention(Q, K, V)

    monkeypatch.setattr(F, "scaled_dot_product_attention", reference)


def count(run: Callable[[], object]) -> int:
    """FLOPs of the matrix products that PyTorch sees."""
    with FlopCounterMode(display=False) as counter:
        run()
    return counter.get_total_flops()


@pytest.mark.usefixtures("plain_attention")
@pytest.mark.parametrize(
    ("name", "length"),
    [("tiny", 1), ("tiny", 7), ("tiny", 30), ("a_h1", 7), ("b_dk16", 7), ("parsing", 7)],
)
def test_the_count_is_pytorchs_to_the_last_flop(name: str, length: int) -> None:
    """Breaks if a product is forgotten or counted twice, d_v follows d_k, a multiply-add is one
    FLOP, attention is not quadratic in the length or the backward pass not twice the forward."""
    row = find_row(name)
    model = build(row)
    tokens = SENTENCES * length
    forward = count(lambda: logits(model, length))
    assert forward == tokens * forward_flops(row, V, length).total
    both = count(lambda: logits(model, length).sum().backward())
    assert both * row.steps * row.batch_tokens == tokens * training_flops(row, V, length)


def test_only_attention_grows_with_the_length_and_linearly_per_token() -> None:
    """Table 1: O(n²·d) per layer and sentence, so O(n·d) per token."""
    short, long = (forward_flops(ROWS["base"], V, length) for length in (10, 40))
    assert long.attention == 4 * short.attention
    assert (long.encoder, long.decoder, long.projection) == (
        short.encoder,
        short.decoder,
        short.projection,
    )


@pytest.mark.parametrize(
    ("name", "model"), [("base", "Transformer (base)"), ("big", "Transformer (big)")]
)
def test_the_papers_rule_gives_table_2(name: str, model: str) -> None:
    """Breaks if time, number or rate of the GPUs is not the paper's."""
    row = ROWS[name]
    found = paper_estimate(row, training_flops(row, 37_000, 30))
    printed = next(result.flops_en_de for result in TABLE_2 if result.model == model)
    assert f"{found.flops:.1e}" == f"{printed:.1e}"
    assert 0.2 < found.utilisation < 0.5, "the model needs less than the GPUs could do"


def test_only_rows_with_published_hours_have_the_papers_estimate() -> None:
    """Breaks if a variation inherits base's 12 hours."""
    stated = {name: row.published.hours for name, row in ROWS.items() if row.published.hours}
    assert stated == {"base": 12, "big": 84, "big_en_fr": 84}
    assert paper_estimate(ROWS["b_dk16"], 1) is None


def test_an_estimate_is_time_times_gpus_times_rate() -> None:
    gpu = find_gpu("t4")
    found = estimate(1e15, gpu, gpus=2, hours=0.5)
    assert found.flops == 2 * 1_800 * 8.1e12
    assert found.utilisation == pytest.approx(1e15 / (2 * 1_800 * 8.1e12))
    assert found.tensor_utilisation == pytest.approx(1e15 / (2 * 1_800 * 65e12))
    assert estimate(1e15, find_gpu("K80"), gpus=1, hours=1).tensor_utilisation is None


def test_the_papers_gpus_are_sustained_and_later_ones_peaks_with_a_source() -> None:
    """Breaks if a figure with sparsity (twice the dense one) or of another card slips in: tensor
    cores of one generation do a fixed multiple of its single-precision rate."""
    sustained = {gpu.name: gpu.single_tflops for gpu in GPUS.values() if gpu.rate == "sustained"}
    assert sustained == {"K80": 2.8, "K40": 3.7, "M40": 6.0, "P100": 9.5}
    multiples = {
        "V100-SXM2": 8,
        "T4": 8,
        "A100": 16,
        "RTX-3090": 2,
        "RTX-4090": 2,
        "L4": 4,
        "L40S": 4,
        "H100-SXM": 14.8,  # 16 at one clock; the tensor cores' is lower
        "H200-SXM": 14.8,
    }
    assert [gpu.name for gpu in LATER] == list(multiples)
    for gpu in LATER:
        assert gpu.rate == "peak"
        assert ".nvidia.com/" in gpu.source
        assert gpu.tensor_tflops / gpu.single_tflops == pytest.approx(multiples[gpu.name], rel=0.02)


def test_the_table_shows_both_sides(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cost", "base", "--gpu", "A100", "--gpus", "4", "--hours", "10"]) == 0
    lines = {" ".join(line.split()) for line in capsys.readouterr().out.splitlines()}
    assert lines >= {
        "the paper your run",
        "GPUs 8 x P100 4 x A100",
        "hours 12 10",
        "TFLOPS of a GPU, single precision 9.5 sustained 19.5 peak",
        "training FLOPs by the paper's rule 3.3e18 2.8e18",
        "TFLOPS of a GPU, 16-bit tensor cores 312 peak",
        f"A100: {find_gpu('A100').source}",
    }


def test_a_row_without_published_hours_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cost", "aiayn_c_n2"]) == 0
    printed = capsys.readouterr().out
    assert printed.count("not stated") == 2
    assert "tensor cores" not in printed and "FLOPs counted" in printed


def test_json_has_the_same_in_full(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["cost", "d_drop0", "--vocab", "100", "--length", "5", "--json"]
    assert main([*arguments, "--gpu", "P100", "--gpus", "8", "--hours", "12"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["training_flops"] == training_flops(ROWS["d_drop0"], 100, 5)
    parts = printed["forward_flops"]
    assert parts.pop("total") == sum(parts.values())
    assert printed["paper"] is None
    assert printed["own"]["flops"] == pytest.approx(8 * 12 * 3_600 * 9.5e12)
    assert printed["own"]["gpu"]["rate"] == "sustained"


OWN = ["--gpu", "T4", "--gpus", "1", "--hours", "1"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["huge"], "unknown row 'huge': the rows are base, "),
        (["base", "--vocab", "0"], "the vocabulary must have at least one type, got 0\n"),
        (["base", "--length", "0"], "a sentence must have at least one token, got 0\n"),
        (["base", *OWN, "--gpu", "T5"], "unknown GPU 'T5': the GPUs are K80, "),
        (["base", *OWN, "--gpus", "0"], "gpus must be at least 1, got 0\n"),
        (["base", *OWN, "--hours", "0"], "hours must be positive, got 0.0\n"),
        (["base", *OWN, "--hours", "nan"], "hours must be positive, got nan\n"),
        (["base", *OWN, "--hours", "inf"], "hours must be positive, got inf\n"),
        (
            ["base", "--hours", "3"],
            "--gpu, --gpus and --hours belong together: --gpu and --gpus not given\n",
        ),
    ],
)
def test_wrong_arguments_are_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    """Breaks if a wrong number gives a wrong cost, or a traceback."""
    assert main(["cost", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"aiayn cost: {message}")

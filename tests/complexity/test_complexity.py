"""complexity/: Table 1 measured, against arithmetic."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from fairseq_aiayn.cli.main import main
from fairseq_aiayn.complexity import measuring
from fairseq_aiayn.complexity.layers import HEADS, KERNEL, KINDS, WINDOW, path_length
from fairseq_aiayn.complexity.measuring import Cost, exponent, measure

FUSED, WRITTEN, RECURRENT, CONVOLUTION, DILATED, RESTRICTED = KINDS
n, d = 96, 64


@pytest.mark.parametrize("length", [2, 9, 10, 34])
def test_the_longest_path_is_what_the_table_prints(length):
    """Breaks if a layer reaches further than it may, or a stack's layers do not grow apart."""
    assert path_length(FUSED, length) == path_length(WRITTEN, length) == 1
    assert path_length(RECURRENT, length) == length
    assert path_length(CONVOLUTION, length) == math.ceil((length - 1) / (KERNEL - 1))
    assert path_length(DILATED, length) == math.ceil(round(math.log(length, KERNEL), 9))
    assert path_length(RESTRICTED, length) == math.ceil((length - 1) / WINDOW)


@pytest.fixture(scope="module", autouse=True)
def no_waiting() -> Iterator[None]:
    """A layer is computed once: no test here reads its seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measuring, "SECONDS", 0)
        yield


@pytest.fixture(scope="module")
def costs() -> dict[str, Cost]:
    return {kind.name: measure(kind.build(d, 0), n, d) for kind in KINDS}


def test_flops_are_those_of_the_products(costs):
    projections, attention = 4 * 2 * n * d * d, 2 * 2 * n * n * d
    assert costs[FUSED.name].flops == costs[WRITTEN.name].flops == projections + attention
    assert costs[RECURRENT.name].flops == 4 * 2 * 2 * n * d * d  # four gates, two matrices each
    assert costs[CONVOLUTION.name].flops == KERNEL * 2 * n * d * d
    blocks_see = 3 * WINDOW  # keys of each query, the forbidden ones of its block included
    assert costs[RESTRICTED.name].flops == projections + 2 * 2 * n * blocks_see * d


def test_only_the_equation_as_written_stores_a_weight_per_pair_and_head(costs):
    weights = HEADS * n * n * 4  # bytes
    assert costs[WRITTEN.name].peak_bytes > weights > costs[FUSED.name].peak_bytes


def test_memory_is_that_of_input_and_output_not_of_weights():
    """Breaks if a view of a weight counts: every product with a matrix makes one."""
    assert measure(torch.nn.Linear(64, 64, bias=False), 1, 64).peak_bytes == 2 * 64 * 4


def test_the_exponent_is_that_of_the_two_largest_sizes():
    assert exponent({1: 100.0, 2: 4.0, 4: 16.0}) == pytest.approx(2)


def test_the_command_prints_the_table_and_keeps_it(tmp_path, capsys):
    sizes = ("--lengths", "8", "16", "--widths", "8", "16")
    assert main(["complexity", *sizes, "--output", str(tmp_path / "out")]) == 0
    printed = capsys.readouterr().out
    assert (tmp_path / "out" / "table1.md").read_text() == printed
    assert printed.count("\n") == 2 + len(KINDS)
    kept = json.loads((tmp_path / "out" / "table1.json").read_text())
    assert kept["recurrent (LSTM)"]["by length"]["16"]["flops"] == 16 * 16 * 8 * 8
    assert (tmp_path / "out" / "table1.png").read_bytes().startswith(b"\x89PNG")


def test_the_page_has_the_table_that_the_command_wrote():
    docs = Path(__file__).parents[2] / "docs"
    table = (docs / "table1" / "table1.md").read_text(encoding="utf-8")
    assert table in (docs / "table1.md").read_text(encoding="utf-8")
    assert all(kind.name in table for kind in KINDS)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--lengths", "8"], "lengths must be at least two different positive numbers"),
        (["--widths", "8", "0"], "widths must be at least two different positive numbers"),
        (["--widths", "8", "12"], "the width d must be a multiple of 8 heads, got 12"),
    ],
)
def test_wrong_sizes_are_one_line(options, message, refused):
    line = refused("complexity", "--lengths", "4", "8", *options)
    assert line == f"aiayn complexity: {message}"

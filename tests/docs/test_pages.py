"""Pages are made of the figures that are kept; docs/table1/measure.py: Table 1 measured, against
arithmetic."""

import importlib.util
import json
import math
from pathlib import Path

import pytest
import results_page
import torch

from fairseq_aiayn.nn.attention import attention

DOCS = Path(__file__).parents[2] / "docs"
SPEC = importlib.util.spec_from_file_location("measure", DOCS / "table1" / "measure.py")
table1 = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(table1)
FUSED, WRITTEN, RECURRENT, CONVOLUTION, DILATED, RESTRICTED = table1.BUILDERS
k, r = table1.k, table1.r


@pytest.mark.parametrize("n", [2, 9, 34])
def test_the_longest_path_is_what_the_table_prints(n: int) -> None:
    """Breaks if a layer reaches further than it may, or a stack's layers do not grow apart."""
    assert table1.path_length(FUSED, n) == table1.path_length(WRITTEN, n) == 1
    assert table1.path_length(RECURRENT, n) == n
    assert table1.path_length(CONVOLUTION, n) == math.ceil((n - 1) / (k - 1))
    assert table1.path_length(DILATED, n) == math.ceil(round(math.log(n, k), 9))
    assert table1.path_length(RESTRICTED, n) == math.ceil((n - 1) / r)


@pytest.mark.parametrize(("n", "r"), [(1, 1), (2, 3), (7, 1), (7, 3)])
def test_restricted_attention_is_equation_1_with_a_band_mask(n: int, r: int) -> None:
    Q, K, V = (torch.randn(1, 2, n, 4, dtype=torch.float64) for _ in range(3))
    pos = torch.arange(n)
    expected = attention(Q, K, V, (pos[:, None] - pos).abs() <= r)
    torch.testing.assert_close(table1.restricted_attention(Q, K, V, r), expected)


def test_flops_and_memory_are_those_of_the_products(monkeypatch: pytest.MonkeyPatch) -> None:
    """Breaks if a view of a weight counts as memory, or a kernel is not counted."""
    monkeypatch.setattr(table1, "SECONDS", 0)
    n, d = 96, 64
    costs = [table1.measure(build(d, 0), n, d) for build in table1.BUILDERS]
    projections = 4 * 2 * n * d * d
    assert [cost["flops"] for cost in costs] == [
        projections + 2 * 2 * n * n * d,
        projections + 2 * 2 * n * n * d,
        4 * 2 * 2 * n * d * d,  # four gates, two matrices each
        k * 2 * n * d * d,
        k * 2 * n * d * d,
        projections + 2 * 2 * n * 3 * r * d,  # a block sees three blocks
    ]
    assert costs[1]["peak_bytes"] > 8 * n * n * 4 > costs[0]["peak_bytes"]
    assert table1.measure(torch.nn.Linear(d, d, bias=False), 1, d)["peak_bytes"] == 2 * d * 4


def test_the_page_has_the_rows_of_the_figures_that_are_kept() -> None:
    page = (DOCS / "table1.md").read_text(encoding="utf-8")
    results = json.loads((DOCS / "table1" / "table1.json").read_text(encoding="utf-8"))
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines()]
    for name, printed in table1.PRINTED.items():
        result = results[name]
        for by in ("by length", "by width"):
            result[by] = {int(size): cost for size, cost in result[by].items()}
        assert [name, *table1.as_row(printed, result)] in cells


def test_the_page_of_results_comes_from_the_files_of_results_and_from_nothing_else() -> None:
    page = results_page.make_page(DOCS / "results", DOCS / "results.md")
    assert page == (DOCS / "results.md").read_text()

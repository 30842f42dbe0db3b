"""`aiayn rows`: the rows with what they cost."""

import json
import re
from dataclasses import asdict

import pytest

from fairseq_aiayn.cost import authors_parameters, row_costs
from fairseq_aiayn.paper import ROWS, TRANSLATION

V = 50
WIDEST = 160


@pytest.fixture
def printed(aiayn):
    """Return a function that returns what `aiayn rows ARGUMENTS` prints."""
    return lambda *arguments: aiayn("rows", *arguments)[1]


def test_every_row_is_a_line_that_a_wide_terminal_holds(printed):
    lines = printed("--vocab", "500").splitlines()
    assert [line.split()[0] for line in lines] == ["name", *ROWS]
    assert max(map(len, printed().splitlines())) <= WIDEST
    names = [line.split()[0] for line in printed("big", "aiayn_base").splitlines()]
    assert names == ["name", "big", "base"]


def test_the_figures_of_base(printed):
    """Breaks if a column holds another's figure: all are known from the paper or counted in
    cost/test_estimate.py. Breaks if 5.00 becomes 5.0, or a row without a figure gets base's."""
    header, base, a_h4, tiny = (
        re.split("  +", line) for line in printed("base", "a_h4", "tiny").splitlines()
    )
    sizes = "N 6, d_model 512, d_ff 2048, h 8, d_k 64, d_v 64, P_drop 0.1, eps_ls 0.1"
    regime = "positions sinusoid, steps 100000, averaged 5"
    costs = "params 63.05M, FLOPs/pair 127.07M, training 9.5e17, memory 0.94 GiB"
    paper = "t2t 65.13M, paper 65M, PPL 4.92, BLEU 25.8"
    cells = f"name base, {sizes}, {regime}, {costs}, {paper}".split(", ")
    assert [f"{name} {cell}" for name, cell in zip(header, base, strict=True)] == cells
    assert a_h4[-3:] == ["65.13M", "5.00", "25.5"] and tiny[-1] == "0.22 GiB"


def test_json_has_every_cell_in_full(printed):
    rows = json.loads(printed("--vocab", str(V), "--json"))
    assert [row["name"] for row in rows] == list(ROWS)
    for found in rows:
        row = ROWS[found["name"]]
        assert found.items() >= (asdict(row) | row_costs(row, V)).items()
        assert (found["arch"], found["vocabulary"]) == (row.arch, V)
        assert found["authors_parameters"] == authors_parameters(row)
        assert found["decoding"]["beam"] == (21 if "parsing" in row.name else TRANSLATION.beam)

"""`aiayn rows`: the rows with what they cost, and in what two of them differ."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import asdict, fields

import pytest

from fairseq_aiayn.cost import COSTS, authors_parameters, difference_table, row_costs
from fairseq_aiayn.paper import BASE, ROWS, TRANSLATION

V = 50
WIDEST = 160
Printed = Callable[..., str]


@pytest.fixture
def printed(aiayn: Callable[..., tuple[int, str, str]]) -> Printed:
    """Return a function that returns what `aiayn rows ARGUMENTS` prints."""
    return lambda *arguments: aiayn("rows", *arguments)[1]


def markdown_cells(table: str) -> list[list[str]]:
    """The cells of a Markdown table, without the rule under its header."""
    lines = [[cell.strip() for cell in line[1:-1].split("|")] for line in table.splitlines()]
    assert set("".join(lines[1])) <= {"-", ":"}
    return [lines[0], *lines[2:]]


def test_every_row_is_a_line_that_a_wide_terminal_holds(printed: Printed) -> None:
    lines = printed("--vocab", "500").splitlines()
    assert [line.split()[0] for line in lines] == ["name", *ROWS]
    assert max(map(len, printed().splitlines())) <= WIDEST
    table = markdown_cells(printed("--vocab", "500", "--markdown"))
    assert [" ".join(row).split() for row in table] == [line.split() for line in lines]
    names = [line.split()[0] for line in printed("big", "aiayn_base").splitlines()]
    assert names == ["name", "big", "base"]


def test_the_figures_of_base(printed: Printed) -> None:
    """Breaks if a column holds another's figure: all are known from the paper or counted in
    cost/test_estimate.py. Breaks if 5.00 becomes 5.0, or a row without a figure gets base's."""
    header, base, *others = markdown_cells(printed("base", "a_h4", "tiny", "--markdown"))
    sizes = "N 6, d_model 512, d_ff 2048, h 8, d_k 64, d_v 64, P_drop 0.1, eps_ls 0.1"
    regime = "positions sinusoid, steps 100000, averaged 5"
    costs = "params 63.05M, FLOPs/pair 127.07M, training 9.5e17, memory 0.94 GiB"
    paper = "t2t 65.13M, paper 65M, PPL 4.92, BLEU 25.8"
    cells = f"name base, {sizes}, {regime}, {costs}, {paper}".split(", ")
    assert [f"{name} {cell}" for name, cell in zip(header, base, strict=True)] == cells
    assert [row[-4:] for row in others] == [["65.13M", "", "5.00", "25.5"], [""] * 4]


def test_json_has_every_cell_in_full(printed: Printed) -> None:
    rows = json.loads(printed("--vocab", str(V), "--json"))
    assert [row["name"] for row in rows] == list(ROWS)
    for found in rows:
        row = ROWS[found["name"]]
        assert found.items() >= (asdict(row) | row_costs(row, V)).items()
        assert (found["arch"], found["vocabulary"]) == (row.arch, V)
        assert found["authors_parameters"] == authors_parameters(row)
        assert found["decoding"]["beam"] == (21 if "parsing" in row.name else TRANSLATION.beam)


def test_the_cells_in_which_two_rows_differ_are_shown(printed: Printed) -> None:
    """One head at constant computation: no cost differs, so that there is no ratio."""
    expected = [
        ["", "a_h1", "base"],
        *(["h", "1", "8"], ["d_k", "512", "64"], ["d_v", "512", "64"], ["averaged", "1", "5"]),
        *(["published.ppl", "5.29", "4.92"], ["published.bleu", "24.9", "25.8"]),
        *(["published.parameters", "not stated", "65"], ["published.hours", "not stated", "12"]),
    ]
    assert markdown_cells(printed("--diff", "a_h1", "base", "--markdown")) == expected
    text = printed("--diff", "a_h1", "aiayn_base").splitlines()
    assert [line.split() for line in text] == [" ".join(row).split() for row in expected]
    big = " ".join(printed("--diff", "big", "base").split())
    assert "training_bytes 3.19 GiB 0.94 GiB 3.397" in big
    assert printed("--diff", "base", "aiayn_base") == "base and base: no cell differs\n"


def test_no_cell_that_differs_is_left_out_and_none_that_is_the_same_shown() -> None:
    """Of all pairs of rows; only costs have a ratio."""
    settings = {field.name for field in fields(BASE)} - {"name", "published"}
    for first, second in itertools.combinations(ROWS.values(), 2):
        found = {cell[0]: cell[1:] for cell in difference_table(first, second, V)[1:]}
        assert found.keys() & settings == {
            name for name in settings if getattr(first, name) != getattr(second, name)
        }
        costs = [row_costs(row, V) for row in (first, second)]
        assert found.keys() & COSTS.keys() == {k for k in COSTS if costs[0][k] != costs[1][k]}
        assert all(bool(cells[2:] and cells[2]) == (name in COSTS) for name, cells in found.items())
    assert ["decoding.beam", "21", "4"] in [
        x[:3] for x in difference_table(ROWS["parsing"], BASE, V)
    ]


def test_wrong_arguments_are_one_line(refused: Callable[..., str]) -> None:
    for words in ("tiny --diff base big", "--diff base big --json"):
        assert "--diff: " in refused("rows", *words.split())

"""`aiayn rows`: the rows with what they cost, and in what two of them differ."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import asdict, fields

import pytest
import torch

from fairseq_aiayn.cli.main import main
from fairseq_aiayn.cost import (
    authors_parameters,
    forward_flops,
    parameters,
    row_differences,
    row_table,
    training_bytes,
)
from fairseq_aiayn.nn.layers import Dimensions
from fairseq_aiayn.nn.transformer import create_transformer
from fairseq_aiayn.paper import BASE, ROWS, TRANSLATION, find_row

V = 50
WIDEST = 160
COSTS = {"parameters", "forward_flops", "training_flops", "training_bytes"}


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Return a function that returns what `aiayn rows ARGUMENTS` prints."""

    def run(*arguments: str) -> str:
        assert main(["rows", *arguments]) == 0
        return capsys.readouterr().out

    return run


def markdown_cells(table: str) -> list[list[str]]:
    """The cells of a Markdown table, without the rule under its header."""
    lines = [[cell.strip() for cell in line[1:-1].split("|")] for line in table.splitlines()]
    assert set("".join(lines[1])) <= {"-", ":"}
    return [lines[0], *lines[2:]]


@pytest.mark.parametrize("name", ["tiny", "parsing_tiny"])
def test_memory_is_what_a_training_holds_after_a_step(name: str) -> None:
    """Breaks if a copy is forgotten, or a matrix that two places share is counted twice."""
    row = find_row(name)
    sizes = {symbol: getattr(row, symbol) for symbol in ("N", "d_model", "d_ff", "h", "d_k", "d_v")}
    sharing = "all" if row.shared_vocabulary else "target"
    model = create_transformer(Dimensions(**sizes, P_drop=0.1), V, V, padding=1, sharing=sharing)
    adam = torch.optim.Adam(model.parameters(), fused=True)
    tokens = torch.zeros(1, 2, dtype=torch.long)
    model(tokens, tokens).sum().backward()
    adam.step()
    held = [tensor for p in model.parameters() for tensor in (p, p.grad)]
    held += [s[key] for s in adam.state.values() for key in ("exp_avg", "exp_avg_sq")]
    assert sum(tensor.nbytes for tensor in held) == training_bytes(row, V)


def test_every_row_is_a_line_that_a_wide_terminal_holds(printed: Callable[..., str]) -> None:
    lines = printed().splitlines()
    assert [line.split()[0] for line in lines] == ["name", *ROWS]
    assert max(map(len, lines)) <= WIDEST


def test_names_choose_rows_and_their_order(printed: Callable[..., str]) -> None:
    assert [line.split()[0] for line in printed("big", "aiayn_base").splitlines()[1:]] == [
        "big",
        "base",
    ]
    assert [row["name"] for row in json.loads(printed("tiny", "--json"))] == ["tiny"]


def test_the_figures_of_base(printed: Callable[..., str]) -> None:
    """Breaks if a column holds another's figure: all are known from the paper or counted in
    cost/test_estimate.py."""
    header, base = markdown_cells(printed("base", "--markdown"))
    sizes = "N 6, d_model 512, d_ff 2048, h 8, d_k 64, d_v 64, P_drop 0.1, eps_ls 0.1"
    regime = "positions sinusoid, steps 100000, averaged 5"
    costs = "params 63.05M, FLOPs/pair 127.07M, training 9.5e17, memory 0.94 GiB"
    paper = "t2t 65.13M, paper 65M, PPL 4.92, BLEU 25.8"
    cells = f"name base, {sizes}, {regime}, {costs}, {paper}".split(", ")
    assert [f"{name} {cell}" for name, cell in zip(header, base, strict=True)] == cells
    assert 3 * 127.07e6 * 25_000 * 100_000 == pytest.approx(9.5e17, rel=0.005)
    assert 16 * 63.05e6 / 2**30 == pytest.approx(0.94, abs=0.005)


def test_printed_figures_keep_the_papers_digits_and_others_stay_empty() -> None:
    """Breaks if 5.00 becomes 5.0, or a row without a figure gets base's."""
    header, *cells = row_table([ROWS[name] for name in ("a_h4", "c_dmodel1024", "tiny")], V)
    assert header[-4:] == ["t2t", "paper", "PPL", "BLEU"]
    assert [row[-4:] for row in cells] == [
        ["65.13M", "", "5.00", "25.5"],
        ["167.98M", "168M", "4.66", "26.0"],
        ["", "", "", ""],
    ]


def test_text_and_markdown_have_the_same_cells(printed: Callable[..., str]) -> None:
    text = [line.split() for line in printed("--vocab", "500").splitlines()]
    table = markdown_cells(printed("--vocab", "500", "--markdown"))
    assert [" ".join(row).split() for row in table] == text
    learned = [row[0] for row in table if "learned" in row]
    assert learned == ["e_learned"]


def test_json_has_every_cell_in_full(printed: Callable[..., str]) -> None:
    rows = json.loads(printed("--vocab", str(V), "--json"))
    assert [row["name"] for row in rows] == list(ROWS)
    for found in rows:
        row = ROWS[found["name"]]
        assert found.items() >= asdict(row).items()
        assert (found["arch"], found["vocabulary"]) == (row.arch, V)
        assert found["parameters"] == parameters(row, V)
        assert found["forward_flops"] == forward_flops(row, V, found["length"]).total
        assert found["training_bytes"] == 16 * found["parameters"]
        assert found["authors_parameters"] == authors_parameters(row)
        beam = found["decoding"]["beam"]
        assert beam == (21 if row.name.startswith("parsing") else TRANSLATION.beam)


def test_rows_and_cost_take_the_same_vocabulary_and_count_the_same(
    printed: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    for options in ([], ["--vocab", "123"]):
        (row,) = json.loads(printed("b_dk16", *options, "--json"))
        assert main(["cost", "b_dk16", *options, "--json"]) == 0
        cost = json.loads(capsys.readouterr().out)
        same = ("vocabulary", "length", "training_flops")
        assert [row[key] for key in same] == [cost[key] for key in same]
        assert row["forward_flops"] == cost["forward_flops"]["total"]


def test_what_differs_between_one_head_and_base(printed: Callable[..., str]) -> None:
    """At constant computation: no cost differs, so that there is no ratio."""
    expected = [
        ["", "a_h1", "base"],
        ["h", "1", "8"],
        ["d_k", "512", "64"],
        ["d_v", "512", "64"],
        ["averaged", "1", "5"],
        ["published.ppl", "5.29", "4.92"],
        ["published.bleu", "24.9", "25.8"],
        ["published.parameters", "not stated", "65"],
        ["published.hours", "not stated", "12"],
    ]
    assert markdown_cells(printed("--diff", "a_h1", "base", "--markdown")) == expected
    text = printed("--diff", "a_h1", "aiayn_base").splitlines()
    assert [line.split() for line in text] == [" ".join(row).split() for row in expected]


def test_costs_that_differ_have_the_first_over_the_second(printed: Callable[..., str]) -> None:
    lines = {
        line[0]: line[1:] for line in markdown_cells(printed("--diff", "big", "base", "--markdown"))
    }
    assert lines[""] == ["big", "base", "big / base"]
    assert lines["parameters"] == ["214.17M", "63.05M", "3.397"]
    assert lines["training_bytes"] == ["3.19 GiB", "0.94 GiB", "3.397"]
    assert lines["training_flops"] == ["9.7e18", "9.5e17", "10.159"]
    assert lines["d_model"] == ["1024", "512", ""]
    assert lines["authors_parameters"] == ["218.33M", "65.13M", ""]


def test_regime_and_decoding_are_among_what_differs() -> None:
    found = {each.cell: each.values for each in row_differences(ROWS["parsing"], BASE, V)}
    assert found["warmup"] == (16_000, 4_000)
    assert found["shared_vocabulary"] == (False, True)
    assert found["decoding.beam"] == (21, 4)
    assert found["decoding.alpha"] == (0.3, 0.6)
    assert found["decoding.extra_length"] == (300, 50)
    assert "steps" not in found and "name" not in found


def test_no_cell_that_differs_is_left_out_and_none_that_is_the_same_shown() -> None:
    """Of all pairs of rows, either way round; the other way round a ratio is the inverse."""
    for first, second in itertools.combinations(ROWS.values(), 2):
        found = row_differences(first, second, V)
        settings = {field.name for field in fields(first)} - {"name", "published"}
        assert {each.cell for each in found} & settings == {
            name for name in settings if getattr(first, name) != getattr(second, name)
        }
        back = row_differences(second, first, V)
        assert [(each.cell, each.values) for each in back] == [
            (each.cell, each.values[::-1]) for each in found
        ]
        for each, other in zip(found, back, strict=True):
            assert (each.ratio is not None) == (each.cell in COSTS)
            assert each.ratio is None or each.ratio * other.ratio == pytest.approx(1.0)


def test_the_difference_as_json_is_in_full(printed: Callable[..., str]) -> None:
    found = json.loads(printed("--diff", "e_learned", "base", "--vocab", "50", "--json"))
    assert (found["rows"], found["vocabulary"]) == (["e_learned", "base"], 50)
    by_cell = {each["cell"]: each for each in found["differences"]}
    assert by_cell["learned_positions"]["values"] == [True, False]
    counts = [parameters(ROWS[name], 50) for name in found["rows"]]
    assert by_cell["parameters"]["values"] == counts
    assert by_cell["parameters"]["ratio"] == pytest.approx(counts[0] / counts[1])


@pytest.mark.parametrize("form", [[], ["--markdown"]])
def test_a_row_and_itself_do_not_differ(printed: Callable[..., str], form: list[str]) -> None:
    assert printed("--diff", "base", "aiayn_base", *form) == "base and base: no cell differs\n"
    assert json.loads(printed("--diff", "base", "base", "--json"))["differences"] == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["base", "huge"], "unknown row 'huge': the rows are base, "),
        (["--diff", "base", "huge"], "unknown row 'huge': the rows are base, "),
        (["--vocab", "0"], "the vocabulary must have at least one type, got 0"),
        (
            ["--diff", "base", "big", "--vocab", "-1", "--json"],
            "the vocabulary must have at least one type, got -1",
        ),
        (
            ["tiny", "--diff", "base", "big"],
            "--diff compares the two rows it names: got tiny beside them",
        ),
    ],
)
def test_wrong_arguments_are_one_line(
    refused: Callable[..., str], arguments: list[str], message: str
) -> None:
    assert refused("rows", *arguments).startswith(f"aiayn rows: {message}")


def test_markdown_and_json_exclude_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["rows", "--markdown", "--json"])
    assert stopped.value.code == 2
    assert "not allowed with argument --markdown" in capsys.readouterr().err

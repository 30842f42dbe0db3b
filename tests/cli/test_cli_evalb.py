"""`aiayn evalb` on good and bad input; the rules are tested in treebank/test_evalb.py."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

Aiayn = Callable[..., tuple[int, str, str]]

TREE = "(TOP (S (NP (NN rain)) (VP (VBD fell)) (. .)))\n"
WRONG = TREE.replace("VP", "PP")
GOLD, PREDICTED = TREE * 3, TREE + WRONG + "\n"
SKIPPED = "p:3: skipped: no words to score\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three gold trees, and predictions: right, one label wrong, none."""
    monkeypatch.chdir(tmp_path)
    Path("g").write_text(GOLD)
    Path("p").write_text(PREDICTED)


def test_the_table_and_both_summaries_are_printed(aiayn: Aiayn) -> None:
    status, summary, errors = aiayn("evalb", "g", "p")
    assert (status, errors) == (0, SKIPPED)
    assert summary.startswith("=== Summary ===\n\n-- All --\nNumber of sentence        =      3\n")
    assert summary.count("Bracketing FMeasure       =  83.33\n") == 2
    _, printed, _ = aiayn("evalb", "g", "p", "--per-sentence")
    *head, first, second, third, rule, totals = printed.removesuffix(summary).splitlines()
    assert head[-1] == rule == "=" * 76
    assert first == "   1    3    0  100.00 100.00     3      3    3      0      2     2   100.00"
    assert second.split()[2:6] == ["0", "66.67", "66.67", "2"]
    assert third.split()[2:6] == ["2", "0.00", "0.00", "0"]
    assert totals.split() == ["83.33", "83.33", "5", "6", "6", "0", "4", "4", "100.00"]


def test_json_has_the_figures_of_the_table(aiayn: Aiayn) -> None:
    Path("p").write_text(PREDICTED[:-1] + TREE.replace(")))", "))"))
    content = json.loads(aiayn("evalb", "g", "p", "--json", "--per-sentence")[1])
    right, wrong, unbalanced = content.pop("sentences")
    assert content == json.loads(aiayn("evalb", "g", "p", "--json")[1])
    assert list(content) == ["all", "short", "cutoff", "parameters", "labels"]
    assert (content["all"]["f1"], content["parameters"]) == (pytest.approx(500 / 6), "COLLINS")
    assert content["labels"]["VP"] == {"gold": 2, "predicted": 1, "matched": 1}
    assert right == (
        {"number": 1, "status": "valid", "crossing": 0, "words": 2, "correct_tags": 2}
        | dict.fromkeys(("length", "matched", "gold", "predicted"), 3)
        | dict.fromkeys(("recall", "precision", "tagging_accuracy"), 100.0)
    )
    assert (wrong["number"], wrong["matched"], wrong["recall"]) == (2, 2, pytest.approx(200 / 3))
    assert (unbalanced["status"], unbalanced["words"], unbalanced["gold"]) == ("error", 2, 3)
    assert unbalanced["reason"] == "brackets that this line does not close: 1"
    assert content["all"]["words"] == 4


def test_gzip_and_standard_input_are_read(aiayn: Aiayn, give: Callable[..., None]) -> None:
    """A byte order mark is dropped, and only line feeds end a line."""
    Path("g.gz").write_bytes(gzip.compress(GOLD.replace("rain", "r\u2028n").encode()))
    give("\ufeff" + PREDICTED.replace("rain", "r\u2028n"))
    expected = aiayn("evalb", "g", "p")
    status, printed, errors = aiayn("evalb", "g.gz", "-")
    assert (status, printed, errors) == (0, expected[1], SKIPPED.replace("p:", "standard input:"))


def test_parameters_have_names_and_a_file_of_that_name_wins(aiayn: Aiayn) -> None:
    Path("s1").write_text(TREE.replace("TOP", "S1"))
    for name, count in {"COLLINS": 4, "COLLINS.prm": 4, "new": 3, "new.prm": 3}.items():
        content = json.loads(aiayn("evalb", "s1", "s1", "-p", name, "--json")[1])
        assert content["all"]["gold_constituents"] == count
    Path("new").write_text("DELETE_LABEL VP\nCUTOFF_LEN 2\n")
    content = json.loads(aiayn("evalb", "s1", "s1", "--parameters", "new", "--json")[1])
    assert (content["parameters"], content["cutoff"]) == ("new", 2)
    assert "VP" not in content["labels"]


def test_the_first_ten_that_do_not_count_are_listed(aiayn: Aiayn) -> None:
    Path("g").write_text(TREE * 1500)
    Path("p").write_text(TREE + TREE.replace("rain", "snow") * 1499)
    lines = aiayn("evalb", "g", "p")[2].splitlines()
    assert lines[0] == "p:2: error: the word 'snow' where gold has 'rain'"
    assert (len(lines), lines[10]) == (11, "p: 1,499 sentences do not count")
    status, _, errors = aiayn("evalb", "g", "p", "-e", "2")
    assert status == 2 and "p:3: error number 2, as --max-errors allows" in errors


def test_what_spoils_a_score_unseen_is_warned_of(aiayn: Aiayn) -> None:
    """An empty root on one side counts as a constituent; of trees over several lines, only what
    happens to be a whole tree would be scored."""
    Path("g").write_text(TREE.replace("(TOP", "("))
    Path("p").write_text(TREE)
    _, printed, errors = aiayn("evalb", "g", "p")
    assert "FMeasure       =  85.71" in printed and "write TOP in both" in errors
    assert aiayn("evalb", "g", "g")[2] == ""
    Path("p").write_text(TREE + TREE.replace(" (VP", "\n (VP") * 2)
    assert "warning: 4 lines are no whole tree" in aiayn("evalb", "p", "p")[2]


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        ("", (), "p: expected as many lines as in g, got 0"),
        (TREE * 2, ("--per-sentence",), "p: expected as many lines as in g, got 2"),
        (TREE * 4, ("--json",), "g: expected as many lines as in p, got 3"),
        ("(S it rains)\n", ("--json", "--per-sentence"), "p:1: expected (TAG word), got 'it'"),
        (b"(NN \xff)\n", (), "p:1: byte 5 (0xff) is not UTF-8"),
        (TREE, ("-e", "0"), "--max-errors: expected at least 1, got 0"),
        (TREE, ("-p", "absent.prm"), "absent.prm: No such file"),
    ],
)
def test_bad_input_is_one_line(
    aiayn: Aiayn, content: str | bytes, options: tuple[str, ...], message: str
) -> None:
    Path("p").write_bytes(content.encode() if isinstance(content, str) else content)
    status, printed, errors = aiayn("evalb", "g", "p", *options)
    assert status == 2 and errors.startswith(f"aiayn evalb: {message}")
    assert errors.count("\n") == 1
    assert not printed or "--json" not in options

"""docs/results.md comes from the rows and the JSON files of docs/results, and from nothing else."""

import json
import math
import sys
from pathlib import Path

import pytest
from run_directories import read_comparison, table_rows, valid_log, write_run

from fairseq_aiayn.cli.main import main as aiayn
from fairseq_aiayn.report import results_page
from fairseq_aiayn.report.document import blocks_as_markdown, write_markdown_and_json
from fairseq_aiayn.report.tables import full_blocks, read_table3, results_as_json

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def results(tmp_path) -> Path:
    """A folder with a comparison and a Table 3."""
    made = {"system": "aiayn", "row": "base", "commands": {"train": "fairseq-train bin"}}
    run = write_run(tmp_path / "run", made)
    compared, rows = read_comparison([run], 1), read_table3([run, tmp_path / "absent"])
    folder = tmp_path / "docs" / "measured"
    write_markdown_and_json(folder, "multi30k", "not read", results_as_json(compared))
    write_markdown_and_json(folder, "all rows", "not read", results_as_json(rows))
    return folder


def call(monkeypatch, *arguments: object) -> None:
    monkeypatch.setattr(sys, "argv", ["results_page.py", *map(str, arguments)])
    results_page.main()


def test_the_page_of_this_project_is_up_to_date(monkeypatch):
    call(monkeypatch, "--results", DOCS / "results", "--output", DOCS / "results.md", "--check")


def test_every_file_has_a_heading_its_table_and_how_its_runs_were_made(results, tmp_path):
    page = results_page.make_page(results, tmp_path / "docs" / "page.md")
    run = tmp_path / "run"
    _, rows, table3, captions = page.split("\n## ")
    assert rows.startswith("The rows\n")
    assert table3.startswith("all rows\n") and captions.startswith("multi30k\n")
    for section, made in (
        (table3, read_table3([run, tmp_path / "absent"])),
        (captions, read_comparison([run], 1)),
    ):
        assert blocks_as_markdown(full_blocks(made)).strip() in section
        assert "fairseq-train bin" in section
    assert "[multi30k.json](measured/multi30k.json)" in captions
    assert "[all rows.json](measured/all%20rows.json)" in table3
    assert "not read" not in page and str(tmp_path) not in page


def test_a_training_that_diverged_is_in_the_page(tmp_path):
    """JSON has no number for its perplexity."""
    files = {"valid.log": valid_log(math.inf)}
    run = write_run(tmp_path / "run", {"system": "aiayn", "row": "base"}, **files)
    content = results_as_json(read_comparison([run], 1))
    write_markdown_and_json(tmp_path / "measured", "multi30k", "not read", content)
    page = results_page.make_page(tmp_path / "measured", tmp_path / "page.md")
    assert ["development perplexity", "nan"] in table_rows(page)


def test_a_remark_stands_above_its_table_and_a_section_as_it_is(results, tmp_path):
    (results / "multi30k.remark.md").write_text("On a busy machine.\n")
    (results / "gains.section.md").write_text("| a | b |\n\nBy hand.\n")
    *others, captions = results_page.make_page(results, tmp_path / "page.md").split("\n## ")
    assert "multi30k.json).\n\nOn a busy machine.\n\n|" in captions
    assert "busy" not in "".join(others)
    assert others[-1] == "gains\n\n| a | b |\n\nBy hand.\n"


def test_the_rows_stand_first_as_the_command_beside_them_prints_them(results, tmp_path, capsys):
    _, rows, _, _ = results_page.make_page(results, tmp_path / "page.md").split("\n## ")
    assert rows.startswith("The rows\n\nFrom `aiayn rows --markdown`: computed, not measured.\n\n|")
    assert aiayn(["rows", "--markdown"]) == 0
    assert (
        f"\n\n{capsys.readouterr().out}\nParams: of our model with a vocabulary of 37,000" in rows
    )


def test_check_fails_when_a_table_changes_and_writes_nothing(results, tmp_path, monkeypatch):
    page = tmp_path / "docs" / "page.md"
    options = ["--results", results, "--output", page]
    call(monkeypatch, *options)
    call(monkeypatch, *options, "--check")
    before = page.read_text()
    content = json.loads((results / "multi30k.json").read_text())
    content["runs"][0]["bleu"]["score"] += 1
    (results / "multi30k.json").write_text(json.dumps(content))
    with pytest.raises(SystemExit, match="page.md: must be what the files of .*measured give"):
        call(monkeypatch, *options, "--check")
    assert page.read_text() == before


def test_without_results_the_page_says_so(tmp_path):
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "README.md").write_text("no table")
    page = results_page.make_page(tmp_path / "results", tmp_path / "results.md")
    assert page.endswith("\nNo results are there yet.\n")


@pytest.mark.parametrize(
    ("content", "message"), [("{", "expected JSON"), ("[]", "expected .* object")]
)
def test_a_file_that_holds_no_table_is_named(tmp_path, monkeypatch, content, message):
    (tmp_path / "x.json").write_text(content)
    with pytest.raises(SystemExit, match=f"results_page: .*x.json: {message}"):
        call(monkeypatch, "--results", tmp_path, "--output", tmp_path / "page.md")
    assert not (tmp_path / "page.md").exists()

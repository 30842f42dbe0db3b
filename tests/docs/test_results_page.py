"""docs/results.md comes from the files of docs/results, and from nothing else."""

import math
from pathlib import Path

import pytest
import results_page
from faults import fault_of
from run_directories import table_rows, valid_log, write_run

from fairseq_aiayn.report.document import as_markdown
from fairseq_aiayn.report.pages import sections, write_page
from fairseq_aiayn.report.results import read_report, read_results, read_table3

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def run(tmp_path) -> Path:
    made = {"system": "aiayn", "row": "base", "commands": {"train": "fairseq-train bin"}}
    return write_run(tmp_path / "run", made, **{"valid.log": valid_log(math.inf)})


@pytest.fixture
def folder(tmp_path, run) -> Path:
    """A folder with a comparison and a Table 3."""
    folder = tmp_path / "docs" / "measured"
    write_page(read_report([run], 1), folder, "multi30k")
    write_page(read_table3([run, tmp_path / "absent"]), folder, "all rows")
    return folder


def test_the_page_of_this_project_is_up_to_date():
    page = results_page.make_page(DOCS / "results", DOCS / "results.md")
    assert page == (DOCS / "results.md").read_text()


def test_every_file_has_a_heading_and_the_sections_that_its_results_give(folder, tmp_path):
    page = results_page.make_page(folder, tmp_path / "docs" / "page.md")
    _, table3, captions = page.split("\n## ")
    assert table3.startswith("all rows\n") and captions.startswith("multi30k\n")
    for section, path in ((table3, "all rows.json"), (captions, "multi30k.json")):
        found = sections(read_results(folder / path))
        assert next(iter(found)) == "Results" and "How the runs were made" in found
        shown = {title: found[title] for title in found if title not in results_page.LEFT_OUT}
        lines = map(results_page.wrapped, as_markdown(shown, level=3).split("\n"))
        assert section.strip().endswith("\n".join(lines).strip())
        assert "fairseq-train bin" not in section
    assert "absent: " in table3
    assert "[multi30k.json](measured/multi30k.json)" in captions
    assert "[all rows.json](measured/all%20rows.json)" in table3
    assert str(tmp_path) not in page
    assert ["development perplexity", "nan"] in table_rows(page), "JSON has no infinity"


def test_results_come_from_the_json_again(folder, run):
    """Breaks if a figure of a table is not in its JSON."""
    report, again = read_report([run], 1), read_results(folder / "multi30k.json")
    assert again.examples == report.examples
    assert again.runs[0].settings == report.runs[0].settings
    assert again.runs[0].bleu == report.runs[0].bleu


def test_a_file_that_holds_no_table_is_named(tmp_path):
    (tmp_path / "x.json").write_text("{}")
    assert "x.json: kind: missing key" in fault_of(results_page.make_page, tmp_path, tmp_path / "x")

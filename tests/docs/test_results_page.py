"""docs/results.md comes from the files of docs/results, and from nothing else."""

from pathlib import Path

import results_page

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_of_this_project_is_up_to_date():
    page = results_page.make_page(DOCS / "results", DOCS / "results.md")
    assert page == (DOCS / "results.md").read_text()

"""The page of `aiayn compare` in a browser: it needs no other file, and it fits the window."""

import pytest
from run_directories import MADE, inner, train_log, valid, write_run

from fairseq_aiayn.cli.main import main

pytest_plugins = ["browser"]

HOSTILE = "<script>document.title='mine'</script> <img src=x onerror=alert(1)> &amp; \u05d0 e\u0301"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page of two runs, one of which writes HTML as its translations."""
    folder = tmp_path_factory.mktemp("report")
    curves = [inner(10 * k, 9.0 / k, 60) for k in range(1, 9)] + [valid(80, 1.1)]
    log = "\n".join([*curves, train_log(100_000)])
    runs = []
    for name, system, line in (("ours", "aiayn", "source"), (HOSTILE, "stock", HOSTILE)):
        made = MADE | {"name": name, "system": system, "commands": {"train": f"x '{HOSTILE}'"}}
        texts = {"hypothesis.txt": f"{line}\n" * 4, "train.log": log}
        runs.append(str(write_run(folder / system, made, **texts)))
    assert main(["compare", *runs, "--output", str(folder)]) == 0
    return (folder / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1200])
def test_the_page_is_quiet_and_fits(show, page, width, scheme):
    opened = show(page, width=width, scheme=scheme)
    opened.assert_quiet()
    opened.assert_fits()
    assert opened.colours() > 20, "curves, text and lines on a ground"


def test_what_a_run_wrote_is_text_and_links_lead_to_their_sections(show, page):
    opened = show(page)
    opened.assert_quiet()
    assert opened.tab.locator("main script, main img").count() == 0
    assert opened.tab.title() == f"ours · {HOSTILE}"
    assert HOSTILE in opened.tab.locator("dd").all_inner_texts()
    links = opened.tab.locator("nav a")
    assert links.count() >= 6
    for link in links.all():
        target = opened.tab.locator(link.get_attribute("href"))
        assert target.locator("h2").inner_text() == link.inner_text()
    figures = opened.tab.locator("#learning-curves details table")
    assert not figures.is_visible()
    opened.tab.locator("#learning-curves summary").focus()
    opened.tab.keyboard.press("Enter")
    assert figures.is_visible() and "\t1.10\t" in figures.inner_text()


def test_no_column_is_cut_off_on_paper(show, page):
    opened = show(page, width=718)  # A4 without its margins
    opened.tab.emulate_media(media="print")
    opened.assert_fits()
    tables = opened.tab.locator("table:visible")
    assert tables.count() > 3
    for table in tables.all():
        box = table.bounding_box()
        assert box["x"] + box["width"] <= 718

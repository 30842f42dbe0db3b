"""HTML pages in headless Chromium, of `aiayn compare` and of attention with its controls: they need
no other file, fit the window, and show hostile words as text."""

import io
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
import torch
from patience import PATIENCE
from PIL import Image
from run_directories import MADE, inner, train_log, valid, write_run

from fairseq_aiayn.attention_maps.page import attention_page, view_of
from fairseq_aiayn.attention_maps.weights import AttentionMap, merge_words, select
from fairseq_aiayn.cli.main import main
from fairseq_aiayn.console import one_line

HEIGHT = 800  # pixels of the window; a page may be longer
LAYERS, HEADS = 3, 4
SOURCE = ("the", "re@@", "cip@@", "es", "we", "lo@@", "ve", "</s>")
TARGET = ("die", "Re@@", "zepte", "</s>")
HOSTILE = (
    *("<script>document.title='broken'</script>", "</script><b>x</b>", '"it\'s"', "a\u2028b"),
    *("<img src=x onerror=alert(1)>", "e\u0301\u0323" * 20, "\u05e9\u05dc\u05d5\u05dd", "&amp;"),
)


class OpenPage:
    """One HTML file in a tab of its own; `tab` is playwright's Page."""

    def __init__(self, context, path: Path, fragment: str) -> None:
        self.complaints: list[str] = []  # also of whatever was asked for besides the file
        self.address = path.resolve().as_uri()
        self.tab = context.new_page()
        self.tab.set_default_timeout(1000 * PATIENCE)  # milliseconds
        self.tab.on("console", self._note_message)
        self.tab.on("pageerror", lambda error: self.complaints.append(f"page: {error}"))
        self.tab.on("request", self._note_request)
        self.tab.goto(self.address + fragment)

    def _note_message(self, message) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"console: {message.text}")

    def _note_request(self, request) -> None:
        if request.url.split("#")[0] != self.address:
            self.complaints.append(f"request: {request.url}")

    def assert_quiet(self) -> None:
        """Nothing went wrong on the page, and nothing but the file was asked for."""
        assert self.complaints == []

    def assert_fits(self) -> None:
        needed, there = self.tab.evaluate(
            "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
        )
        assert needed <= there, f"the page needs {needed} px, the window has {there}"

    def colours(self) -> int:
        """Count the colours of the whole page; a blank one has 1."""
        png = self.tab.screenshot(full_page=True, animations="disabled")
        picture = Image.open(io.BytesIO(png)).convert("RGB")
        return len(picture.getcolors(maxcolors=picture.width * picture.height))


@pytest.fixture(scope="module")
def _browser() -> Iterator:
    """One browser for a module; skips where Debian's chromium or playwright is not installed."""
    reason = "pages are tested with playwright, which is not installed"
    playwright = pytest.importorskip("playwright.sync_api", reason=reason)
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("pages are tested in Debian's chromium, which is not on the PATH")
    # Chromium's sandbox refuses to run as root, which containers are
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=arguments)
        yield browser
        browser.close()


@pytest.fixture
def show(_browser, tmp_path: Path) -> Iterator[Callable[..., OpenPage]]:
    """Return a function that opens HTML text in a window of a fresh profile without network."""

    def show_text(text, width=1200, scheme="light", fragment=""):
        path = tmp_path / f"page-{len(_browser.contexts)}.html"
        path.write_text(text, encoding="utf-8")
        context = _browser.new_context(
            viewport={"width": width, "height": HEIGHT},
            color_scheme=scheme,
            reduced_motion="reduce",
            offline=True,
        )
        return OpenPage(context, path, fragment)

    yield show_text
    for context in _browser.contexts:
        context.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("report")
    curves = [inner(10 * k, 9.0 / k, 60) for k in range(1, 9)] + [valid(80, 1.1)]
    log = "\n".join([*curves, train_log(100_000)])
    runs = []
    for system, name in (("aiayn", "ours"), ("stock", HOSTILE[0])):
        made = MADE | {"name": name, "system": system, "commands": {"train": f"x '{name}'"}}
        files = {"hypothesis.txt": f"{HOSTILE[4]}\n" * 4, "train.log": log}
        runs.append(str(write_run(folder / system, made, **files)))
    assert main(["compare", *runs, "--output", str(folder)]) == 0
    return (folder / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(("width", "scheme"), [(360, "light"), (1200, "dark")])
def test_the_page_is_quiet_and_fits(show, report, width, scheme):
    opened = show(report, width=width, scheme=scheme)
    opened.assert_quiet()
    opened.assert_fits()
    assert opened.colours() > 20, "curves, text and lines on a ground"


def test_what_a_run_wrote_is_text_and_links_lead_to_their_sections(show, report):
    opened = show(report)
    opened.assert_quiet()
    assert opened.tab.locator("main script, main img").count() == 0
    assert opened.tab.title() == f"ours · {HOSTILE[0]}"
    assert HOSTILE[4] in opened.tab.locator("dd").all_inner_texts()
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


def colour(page, selector: str) -> list[int]:
    """The colour behind an element, as red, green and blue."""
    ground = page.tab.eval_on_selector(selector, "one => getComputedStyle(one).backgroundColor")
    return [*map(int, re.findall(r"\d+", ground))]


def test_paper_is_white_with_all_that_is_folded_and_no_column_is_cut_off(show, report):
    opened = show(report, width=718, scheme="dark")  # A4 without its margins
    assert max(colour(opened, "body")) < 128
    opened.tab.emulate_media(media="print")
    opened.assert_fits()
    assert colour(opened, "body") == [255, 255, 255]
    assert opened.tab.locator("details").count() >= 3
    for heading in opened.tab.locator("h2, h3, h4, summary").all():
        assert heading.evaluate("one => getComputedStyle(one).breakAfter") == "avoid"
    for folded in opened.tab.locator("details :is(table, pre, ul)").all():
        assert folded.evaluate("one => one.checkVisibility({contentVisibilityAuto: true})")
    tables = opened.tab.locator("table:visible")
    assert tables.count() > 3
    for table in tables.all():
        box = table.bounding_box()
        assert box["x"] + box["width"] <= 718


def invented(kind, queries, keys, shape=(LAYERS, HEADS)):
    """Random weights; in a decoder none of what comes later."""
    size = (*shape, len(queries), len(keys))
    scores = torch.randn(size, generator=torch.Generator().manual_seed(len(kind)))
    if kind == "decoder":
        scores = scores.masked_fill(torch.ones(size).triu(1).bool(), float("-inf"))
    return AttentionMap(kind, tuple(queries), tuple(keys), (2 * scores).softmax(-1))


MAPS = {
    "encoder": invented("encoder", SOURCE, SOURCE),
    "decoder": invented("decoder", TARGET, ("<s>", *TARGET[:-1])),
    "cross": invented("cross", TARGET, SOURCE),
}


@pytest.fixture
def open_page(show):
    """Return a function that opens the page of all three kinds, or of one map."""

    def show_maps(fragment: str = "", width: int = 1200, scheme: str = "light", one=None, view=""):
        maps = [one] if one else list(MAPS.values())
        page = attention_page(maps, HOSTILE[0] if one else "We love recipes", view, HOSTILE[0])
        return show(page, width, scheme, fragment)

    return show_maps


def lines(page) -> dict[tuple[int, int, int], float]:
    """The opacity of each line, by head, query and key, all from 0."""
    found = page.tab.eval_on_selector_all(
        "#lines line",
        """all => all.map(line => [line.dataset.head - 1, Math.floor(line.getAttribute("y1")),
             Math.floor(line.getAttribute("y2")), Number(line.getAttribute("stroke-opacity"))])""",
    )
    assert len({tuple(one[:3]) for one in found}) == len(found)
    return {(head, query, key): opacity for head, query, key, opacity in found}


def visible(one: AttentionMap, layer: int, heads: Sequence[int], **only: int) -> dict:
    """Every weight of a layer that a pixel shows, of one query or key if it is given."""
    weights = (one.weights[layer] * 4095).round() / 4095  # as the page has them
    return {
        (head, query, key): pytest.approx(float(weights[head, query, key]), abs=1e-4)
        for head, query, key in weights.ge(1 / 255).nonzero().tolist()
        if head in heads and only.get("query", query) == query and only.get("key", key) == key
    }


def choose(page, group: str, text: str) -> None:
    page.tab.locator(f"#{group} label", has_text=re.compile(f"^{text}$")).click()


def words(page, side: str) -> list[str]:
    return page.tab.locator(f"#{side} button").all_text_contents()


def test_it_opens_with_the_last_layer_but_one_and_shows_each_kind_layer_and_head(open_page):
    page = open_page()
    assert lines(page) == visible(MAPS["encoder"], LAYERS - 2, range(HEADS))
    assert page.tab.title() == "We love recipes" and page.colours() > 50
    for kind, layer in (("decoder", 2), ("cross", 0)):
        choose(page, "kinds", kind.capitalize())
        choose(page, "layers", str(layer + 1))
        assert lines(page) == visible(MAPS[kind], layer, range(HEADS))
        assert (*words(page, "query"),) == MAPS[kind].queries
        assert (*words(page, "key"),) == MAPS[kind].keys
    choose(page, "heads", "2")
    assert lines(page) == visible(MAPS["cross"], 0, [0, 2, 3])
    page.tab.click("#none")
    assert lines(page) == {}
    page.tab.click("#all")
    assert lines(page) == visible(MAPS["cross"], 0, range(HEADS))
    choose(page, "words", "Whole words")
    merged = merge_words(MAPS["cross"])
    assert (*words(page, "query"),) == merged.queries and (*words(page, "key"),) == merged.keys
    assert lines(page) == visible(merged, 0, range(HEADS))
    page.assert_quiet()


def test_paper_shows_the_picture_alone_and_a_chosen_word_on_white(open_page):
    page = open_page("#kind=cross&query=2", scheme="dark")
    page.tab.emulate_media(media="print")
    assert colour(page, "body") == colour(page, ".picture") == [255, 255, 255]
    assert max(colour(page, "#query .chosen")) < 128 and page.tab.locator("line").count()
    shown = page.tab.locator(".row label:visible").all_inner_texts()
    assert " ".join(shown) == "Cross 3 1 2 3 4 Lines Pieces"
    assert page.tab.locator("button:visible").count() == len(TARGET) + len(SOURCE)
    assert page.tab.locator("#largest").is_visible(), "the weights of the word as numbers"


def test_a_click_isolates_a_word_and_pointing_previews_one(open_page):
    page = open_page("#kind=cross&layer=1&heads=1,3")
    for only in ({"query": 2}, {"key": 5}):
        ((side, index),) = only.items()
        page.tab.click(f"#{side} button >> nth={index}")
        page.tab.mouse.move(0, 0)
        assert lines(page) == visible(MAPS["cross"], 0, [0, 2], **only)
    page.tab.click("#key button >> nth=5")
    page.tab.mouse.move(0, 0)
    assert lines(page) == visible(MAPS["cross"], 0, [0, 2])
    page.tab.hover("#query button >> nth=1")
    assert {query for _, query, _ in lines(page)} == {1}
    weights = MAPS["cross"].weights[0, [0, 2], 1]
    told = sorted(((float(w), i, k) for i, row in enumerate(weights) for k, w in enumerate(row)))
    told = [f"{w:.2f} {SOURCE[key]} head {(1, 3)[i]}" for w, i, key in told[:-7:-1]]
    assert page.tab.locator("#largest li").all_text_contents() == told


def test_heat_maps_have_a_cell_for_every_weight_and_frame_a_word(open_page):
    page = open_page("#kind=decoder&layer=1&heads=2,4&view=heat&query=2")
    pixels = page.tab.eval_on_selector_all(
        "canvas",
        """all => all.map(one => [...one.getContext("2d").getImageData(0, 0, 4, 4).data])""",
    )
    opacities = torch.tensor(pixels).view(2, 4, 4, 4)[..., 3] / 255
    expected = MAPS["decoder"].weights[0, [1, 3]]
    torch.testing.assert_close(opacities, expected, atol=1.1 / 255, rtol=0)
    assert page.tab.locator(".heat .chosen").all_text_contents() == ["Re@@"] * 2
    cell = {"x": 20, "y": 45}  # the second key of the last query
    page.tab.locator("canvas").first.click(position=cell)
    page.tab.locator("canvas").first.hover(position={**cell, "x": 21})
    assert page.tab.locator(".heat .chosen").all_text_contents() == ["</s>"] * 2
    told = page.tab.locator("#largest li").all_text_contents()
    assert [line.split()[1] for line in told] == [MAPS["decoder"].keys[1]] * 2
    page.assert_quiet()


def test_of_many_words_the_strongest_weights_are_drawn(open_page):
    one = invented("encoder", SOURCE * 20, SOURCE * 20, (1, 2))
    page = open_page(width=360, one=one)
    largest = one.weights.flatten().sort(descending=True).values
    drawn = lines(page).values()
    assert sorted(drawn, reverse=True) == pytest.approx(largest[:8000].tolist(), abs=2e-4)
    assert "strongest 8,000 of " in page.tab.text_content("#omitted")
    page.assert_fits()


def test_an_address_has_the_view_and_wins_over_the_one_that_the_page_was_made_for(open_page):
    first = merge_words(MAPS["encoder"])
    view = view_of(select(first, 1, [3, 1], first.queries[1]), "whole")
    page = open_page(view=view)
    assert lines(page) == visible(first, 0, [0, 2], query=1)
    choose(page, "heads", "3")
    page.tab.wait_for_function("() => location.hash.includes('heads=1&')")
    page = open_page(page.tab.evaluate("location.hash"), view="kind=cross")
    assert lines(page) == visible(first, 0, [0], query=1)
    page = open_page("#kind=x&layer=99&heads=0,-1,2,99,z&view=y&query=99&words=1")
    assert lines(page) == visible(MAPS["encoder"], LAYERS - 2, [1])
    page.assert_quiet()


@pytest.mark.parametrize(
    ("group", "choice", "said"),
    [("words", "Whole words", "words=whole"), ("kinds", "Cross", "kind=cross")],
)
def test_a_word_that_is_pinned_is_none_of_other_words(open_page, group, choice, said):
    page = open_page("#query=2&key=1")
    choose(page, group, choice)
    page.tab.wait_for_function("said => location.hash.includes(said)", arg=said)
    assert not re.search("query|key", page.tab.evaluate("location.hash"))


def test_the_keyboard_alone_does_everything(open_page):
    page = open_page()
    for keys, fragment in (
        (["Tab", "ArrowRight"], "kind=decoder"),
        (["Tab", "ArrowRight"], "layer=3"),
        (["Tab", "Space"], "heads=2,3,4"),
        (["Tab"] * (HEADS + 2) + ["ArrowRight"], "view=heat"),  # past All and None
        (["ArrowLeft"], "view=lines"),
        (["Tab"] * 3 + ["Enter"], "query=2"),  # past pieces and whole words
        (["Tab"] * len(TARGET) + ["Space"], "key=2"),
    ):
        for key in keys:
            page.tab.keyboard.press(key)
        page.tab.wait_for_function("part => location.hash.includes(part)", arg=fragment)
    page.tab.keyboard.press("Tab")
    assert {key for _, _, key in lines(page)} == {2}, "a word is looked at before it is chosen"
    page.tab.keyboard.press("Escape")
    page.tab.wait_for_function("() => !location.hash.includes('key')")
    page.assert_quiet()


@pytest.mark.parametrize(("scheme", "view"), [("light", "lines"), ("dark", "heat")])
def test_a_phone_shows_it_and_hostile_words_stay_text(open_page, scheme: str, view: str):
    page = open_page(f"#view={view}", 360, scheme, invented("encoder", HOSTILE, HOSTILE))
    shown = "#query button" if view == "lines" else "figure >> nth=0 >> .queries span"
    assert page.tab.locator(shown).all_text_contents() == [*map(one_line, HOSTILE)]
    assert page.tab.locator("h1").text_content() == page.tab.title() == HOSTILE[0]
    assert page.tab.locator("img, b:not(li b), script:not([id]):not([type])").count() == 0
    assert (min(colour(page, "body")) > 128) == (scheme == "light")
    assert page.colours() > 20
    page.assert_fits()
    page.assert_quiet()

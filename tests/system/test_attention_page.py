"""The HTML page of attention in a browser: its drawings, its controls, hostile words."""

import re
from collections.abc import Sequence

import pytest
import torch

from fairseq_aiayn.attention_maps.page import attention_page, view_of
from fairseq_aiayn.attention_maps.weights import AttentionMap, merge_words, select
from fairseq_aiayn.console import one_line

pytest_plugins = ["browser"]

LAYERS, HEADS = 3, 4
SOURCE = ("the", "re@@", "cip@@", "es", "we", "lo@@", "ve", "</s>")
TARGET = ("die", "Re@@", "zepte", "</s>")
HOSTILE = (
    *("<script>document.title='broken'</script>", "</script><b>x</b>", '"it\'s"', "a\u2028b"),
    *("<img src=x onerror=alert(1)>", "e\u0301\u0323" * 20, "\u05e9\u05dc\u05d5\u05dd", "&amp;"),
)


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
        page = attention_page(maps, HOSTILE[0] if one else "We love recipes", view)
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
    """Click a choice of a group of controls."""
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
    ground = page.tab.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (min(map(int, re.findall(r"\d+", ground))) > 128) == (scheme == "light")
    assert page.colours() > 20
    page.assert_fits()
    page.assert_quiet()

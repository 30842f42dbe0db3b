"""The HTML page of attention in a browser: its drawings, its controls, hostile words."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
import torch

from fairseq_aiayn.attention_maps.page import attention_page, view_of
from fairseq_aiayn.attention_maps.weights import AttentionMap, merge_words, select

pytest_plugins = ["browser"]

LAYERS, HEADS = 3, 4
ROUNDING = 0.5 / 4095 + 0.5e-4  # of the data block, and of the four digits of an opacity
SOURCE = ("the", "re@@", "cip@@", "es", "we", "lo@@", "ve", "</s>")
TARGET = ("die", "Re@@", "zepte", "</s>")
HOSTILE = (
    *("<script>document.title='broken'</script>", "</script><b>x</b>", '"it\'s"', "a\u2028b"),
    *("<img src=x onerror=alert(1)>", "e\u0301\u0323" * 20, "\u05e9\u05dc\u05d5\u05dd", "&amp;"),
)


def invented(
    kind: str, queries: Sequence[str], keys: Sequence[str], shape: tuple[int, int] = (LAYERS, HEADS)
) -> AttentionMap:
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
def open_page(chromium):
    """Return a function that opens the page of all three kinds, or of one map."""

    def show(fragment: str = "", width: int = 1200, scheme: str = "light", one=None, view=""):
        maps = [one] if one else list(MAPS.values())
        page = attention_page(maps, HOSTILE[0] if one else "We love recipes", view)
        return chromium.show(page, width, scheme, fragment)

    return show


def lines(page, group: str = "all") -> dict[tuple[int, int, int], float]:
    """The opacity of each line, by head, query and key, all from 0."""
    found = page.tab.eval_on_selector_all(
        f"#lines .{group} line",
        """all => all.map(line => [line.dataset.head - 1, Math.floor(line.getAttribute("y1")),
             Math.floor(line.getAttribute("y2")), Number(line.getAttribute("stroke-opacity"))])""",
    )
    assert len({tuple(one[:3]) for one in found}) == len(found)
    return {(head, query, key): opacity for head, query, key, opacity in found}


def assert_drawn(drawn: dict, one: AttentionMap, layer: int, heads: Sequence[int], **only: int):
    """Every weight that its rounding does not make 0, of one query or key if it is given."""
    expected = {}
    for head in heads:
        for query in range(len(one.queries)):
            for key in range(len(one.keys)):
                weight = float(one.weights[layer, head, query, key])
                chosen = only.get("query", query) == query and only.get("key", key) == key
                if weight > 0.5 / 4095 and chosen:
                    expected[head, query, key] = weight
    assert drawn.keys() == expected.keys()
    assert max(abs(drawn[place] - expected[place]) for place in drawn) <= ROUNDING


def await_address(page, part: str) -> None:
    """Wait until the page's address has a part."""
    page.tab.wait_for_function("part => location.hash.includes(part)", arg=part)


def choose(page, group: str, text: str) -> None:
    """Click a choice of a group of controls."""
    page.tab.locator(f"#{group} label", has_text=re.compile(f"^{text}$")).click()


def test_it_opens_with_the_last_layer_but_one_and_shows_each_kind_layer_and_head(open_page):
    page = open_page()
    assert_drawn(lines(page), MAPS["encoder"], LAYERS - 2, range(HEADS))
    assert page.tab.title() == "We love recipes" and page.colours() > 50
    for kind, layer in (("decoder", 2), ("cross", 0)):
        choose(page, "kinds", kind.capitalize())
        choose(page, "layers", str(layer + 1))
        assert_drawn(lines(page), MAPS[kind], layer, range(HEADS))
        for side in ("queries", "keys"):
            words = page.tab.locator(f"#{side} button").all_text_contents()
            assert words == [*getattr(MAPS[kind], side)]
    choose(page, "heads", "2")
    assert_drawn(lines(page), MAPS["cross"], 0, [0, 2, 3])
    page.tab.click("#none")
    assert lines(page) == {}
    page.tab.click("#all")
    assert_drawn(lines(page), MAPS["cross"], 0, range(HEADS))
    page.assert_quiet()


def test_a_click_isolates_a_word_and_pointing_previews_one(open_page):
    page = open_page("#kind=cross&layer=1&heads=1,3")
    for side, only in (("queries", {"query": 2}), ("keys", {"key": 5})):
        (index,) = only.values()
        page.tab.click(f"#{side} button >> nth={index}")
        page.tab.mouse.move(0, 0)
        assert_drawn(lines(page, "one"), MAPS["cross"], 0, [0, 2], **only)
    assert not page.tab.locator("#lines .all").is_visible()
    page.tab.click("#keys button >> nth=5")
    page.tab.mouse.move(0, 0)
    assert lines(page, "one") == {} and page.tab.locator("#lines .all").is_visible()
    page.tab.select_option("#word", label="Re@@")
    page.tab.hover("#queries button >> nth=3")
    assert {place[1] for place in lines(page, "one")} == {3}
    page.tab.mouse.move(0, 0)
    assert {place[1] for place in lines(page, "one")} == {1}
    weights = MAPS["cross"].weights[0, [0, 2], 1]
    told = sorted(((float(w), i, k) for i, row in enumerate(weights) for k, w in enumerate(row)))
    told = [f"{w:.2f} {SOURCE[key]} head {(1, 3)[i]}" for w, i, key in told[:-7:-1] if w >= 0.005]
    assert page.tab.locator("#largest li").all_text_contents() == told


def test_heat_maps_have_a_square_for_every_weight_and_frame_a_word(open_page):
    page = open_page("#kind=decoder&layer=1&heads=2,4&view=heat&query=2")
    for head in (1, 3):
        squares = page.tab.eval_on_selector_all(
            f"svg[data-head='{head + 1}'] .cells rect",
            "all => all.map(r => [Number(r.getAttribute('fill-opacity')), r.getBBox().x, "
            "r.getBBox().y])",
        )
        columns, rows = (sorted({square[axis] for square in squares}) for axis in (1, 2))
        drawn = {(head, rows.index(y), columns.index(x)): opacity for opacity, x, y in squares}
        assert_drawn(drawn, MAPS["decoder"], 0, [head])
    assert page.tab.locator("figure").count() == 2
    assert page.tab.locator("text.chosen").first.text_content().startswith("Re@@")
    page.tab.locator(".cells rect").first.click()
    page.tab.mouse.move(0, 0)
    assert page.tab.locator("text.chosen").first.text_content().startswith("die")
    page.assert_quiet()


@pytest.mark.parametrize("kind", MAPS)
def test_a_click_merges_pieces_to_words(open_page, kind: str):
    page = open_page(f"#kind={kind}&layer=1")
    page.tab.check("#whole input")
    expected = merge_words(MAPS[kind])
    assert page.tab.locator("#queries button").all_text_contents() == list(expected.queries)
    assert page.tab.locator("#keys button").all_text_contents() == list(expected.keys)
    assert_drawn(lines(page), expected, 0, range(HEADS))
    page.tab.uncheck("#whole input")
    assert_drawn(lines(page), MAPS[kind], 0, range(HEADS))


@pytest.mark.parametrize(
    ("view", "drawn", "attribute"),
    [("lines", 8000, "stroke-opacity"), ("heat", 40000, "fill-opacity")],
)
def test_of_five_hundred_words_the_strongest_weights_are_drawn(open_page, view, drawn, attribute):
    words = [f"w{i}" for i in range(500)]
    one = invented("encoder", words, words, (1, 1))
    page = open_page(f"#view={view}", width=360, one=one)
    seen = int((one.weights > 0.5 / 4095).sum())
    said = page.tab.text_content("#omitted")
    assert re.fullmatch(rf"Drawn are the strongest {drawn:,} of {seen:,} \w+\.", said)
    opacities = page.tab.eval_on_selector_all(
        ".all line, .cells rect", f"all => all.map(one => one.getAttribute('{attribute}'))"
    )
    kth = one.weights.flatten().kthvalue(500 * 500 - drawn + 1).values
    assert len(opacities) == drawn
    assert min(map(float, opacities)) == pytest.approx(float(kth), abs=2 * ROUNDING)
    page.assert_fits()


def test_an_address_restores_its_view_and_wins_over_the_one_that_the_page_was_made_for(open_page):
    first = merge_words(MAPS["encoder"])
    view = view_of(select(first, 1, [3, 1], first.queries[1]), "lines", "whole")
    page = open_page(view=view)
    for part in ("layer=1", "heads=1,3", "words=whole", "query=2", f"kind={first.kind}"):
        await_address(page, part)
    for fragment in (
        "#kind=cross&layer=3&heads=2,4&view=lines&query=3",
        "#kind=decoder&layer=1&heads=1&view=heat&key=2",
        "#kind=encoder&layer=2&heads=&view=lines&words=whole",
    ):
        page = open_page("#" + "&".join(reversed(fragment[1:].split("&"))), view=view)
        page.tab.wait_for_function("whole => location.hash === whole", arg=fragment)
    page = open_page("#kind=x&layer=99&heads=0,-1,2,99,z&view=y&query=99&words=1")
    assert_drawn(lines(page), MAPS["encoder"], LAYERS - 1, [1])
    page.assert_quiet()


def test_the_keyboard_alone_does_everything(open_page):
    page = open_page()
    press = page.tab.keyboard.press
    for keys, fragment in (
        (["Tab", "ArrowRight"], "kind=decoder"),
        (["Tab", "ArrowRight"], "layer=3"),
        (["Tab", "Space"], "heads=2,3,4"),
        (["Tab"] * (HEADS + 2) + ["ArrowRight"], "view=heat"),  # past All and None
        (["ArrowLeft"], "view=lines"),
        (["Tab"] * 3 + ["ArrowDown"], "query=2"),  # past the menu of words and whole words
        (["ArrowRight"], "key=2"),
    ):
        for key in keys:
            press(key)
        await_address(page, fragment)
    press("Escape")
    page.tab.wait_for_function("() => !location.hash.includes('key')")
    page.assert_quiet()


@pytest.mark.parametrize(("scheme", "view"), [("light", "lines"), ("dark", "heat")])
def test_a_phone_shows_it_without_scrolling_sideways(open_page, scheme: str, view: str):
    page = open_page(f"#view={view}&query=2", 360, scheme)
    page.assert_fits()
    assert page.colours() > 20
    ground = page.tab.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (min(map(int, re.findall(r"\d+", ground))) > 128) == (scheme == "light")


def test_hostile_words_are_shown_as_text_and_stay_whole(open_page):
    page = open_page(one=invented("encoder", HOSTILE, HOSTILE))
    assert page.tab.locator("#queries button").all_text_contents() == list(HOSTILE)
    assert page.tab.locator("h1").text_content() == page.tab.title() == HOSTILE[0]
    choose(page, "views", "Heat maps")
    titles = page.tab.locator("figure >> nth=0 >> text.query title").all_text_contents()
    assert titles == list(HOSTILE)
    assert page.tab.locator("img, b:not(li b), script:not([id]):not([type])").count() == 0
    page.assert_quiet()

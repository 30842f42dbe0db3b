"""The HTML page of attention in a browser: its drawings, its controls, hostile words."""

from __future__ import annotations

import re

import pytest
from attention_pages import (
    HEADS,
    LAYERS,
    MAPS,
    ROUNDING,
    SOURCE,
    assert_drawn,
    await_address,
    choose,
    invented,
    lines,
    open_kinds,
    open_map,
    weights,
)

from fairseq_aiayn.attention_maps.page import attention_page, view_of
from fairseq_aiayn.attention_maps.weights import merge_words, select
from fairseq_aiayn.palette import LINE_COLOURS

pytest_plugins = ["browser"]

HOSTILE = (
    *("<script>document.title='broken'</script>", "</script><b>x</b>", '"it\'s"', "a\u2028b"),
    *("<img src=x onerror=alert(1)>", "e\u0301\u0323a", "\u05e9\u05dc\u05d5\u05dd", "&amp;"),
)


def queries_shown(page) -> set[int]:
    """The queries of the lines of one word."""
    return {place[1] for place in lines(page, "one")}


def test_it_opens_with_the_last_layer_but_one_and_shows_each_kind_and_layer(chromium) -> None:
    page = open_kinds(chromium)
    assert_drawn(lines(page), weights(MAPS["encoder"], LAYERS - 2, range(HEADS)))
    assert page.tab.title() == "We love recipes" and page.colours() > 50
    for kind, layer in (("decoder", 2), ("cross", 0)):
        choose(page, "kinds", kind.capitalize())
        choose(page, "layers", str(layer + 1))
        assert_drawn(lines(page), weights(MAPS[kind], layer, range(HEADS)))
        for side in ("queries", "keys"):
            words = page.tab.locator(f"#{side} button").all_text_contents()
            assert words == [*getattr(MAPS[kind], side)]
    page.assert_quiet()


def test_heads_are_switched_one_by_one_and_all_at_once(chromium) -> None:
    page = open_kinds(chromium)
    choose(page, "heads", "2")
    assert_drawn(lines(page), weights(MAPS["encoder"], 1, [0, 2, 3]))
    page.tab.click("#none")
    assert lines(page) == {}
    choose(page, "heads", "3")
    assert_drawn(lines(page), weights(MAPS["encoder"], 1, [2]))
    colours = page.tab.eval_on_selector_all("line", "all => all.map(l => l.getAttribute('stroke'))")
    assert set(colours) == {LINE_COLOURS[2]}
    page.tab.click("#all")
    assert_drawn(lines(page), weights(MAPS["encoder"], 1, range(HEADS)))


def test_a_click_isolates_a_word_and_a_second_lets_it_go(chromium) -> None:
    page = open_kinds(chromium, "#kind=cross&heads=1,3")
    every = weights(MAPS["cross"], 1, [0, 2])
    for side, place, index in (("queries", 1, 2), ("keys", 2, 5)):
        page.tab.click(f"#{side} button >> nth={index}")
        page.tab.mouse.move(0, 0)
        assert_drawn(lines(page, "one"), {p: w for p, w in every.items() if p[place] == index})
    assert not page.tab.locator("#lines .all").is_visible()
    page.tab.click("#keys button >> nth=5")
    page.tab.mouse.move(0, 0)
    assert lines(page, "one") == {}
    assert page.tab.locator("#lines .all").is_visible()
    page.tab.select_option("#word", label="die")
    assert queries_shown(page) == {0}


def test_pointing_previews_a_word_and_gives_the_chosen_one_back(chromium) -> None:
    page = open_kinds(chromium, "#kind=cross&layer=1&heads=2,4&query=2")
    expected = weights(MAPS["cross"], 0, [1, 3])
    row = sorted(((w, p) for p, w in expected.items() if p[1] == 1), reverse=True)
    told = [f"{w:.2f} {SOURCE[key]} head {head + 1}" for w, (head, _, key) in row if w >= 0.005]
    assert page.tab.locator("#largest li").all_text_contents() == told[:6]
    assert page.tab.text_content("#reading") == "Re@@ looks at"
    page.tab.hover("#queries button >> nth=3")
    assert queries_shown(page) == {3}
    page.tab.mouse.move(0, 0)
    assert queries_shown(page) == {1}
    await_address(page, "query=2")


def test_heat_maps_have_a_square_for_every_weight(chromium) -> None:
    page = open_kinds(chromium, "#kind=decoder&layer=1&heads=2,4&view=heat")
    for head in (1, 3):
        squares = page.tab.eval_on_selector_all(
            f"svg[data-head='{head + 1}'] .cells rect",
            "all => all.map(r => [Number(r.getAttribute('fill-opacity')), r.getBBox().x, "
            "r.getBBox().y])",
        )
        columns, rows = (sorted({square[axis] for square in squares}) for axis in (1, 2))
        drawn = {(head, rows.index(y), columns.index(x)): opacity for opacity, x, y in squares}
        assert_drawn(drawn, weights(MAPS["decoder"], 0, [head]))
    assert page.tab.locator("figure").count() == 2
    assert not page.tab.locator("#lines").is_visible()
    frame = page.tab.locator(".frame").first.bounding_box()
    page.tab.mouse.move(frame["x"] + frame["width"] - 5, frame["y"] + 5)  # the first to the last
    told = page.tab.locator("#largest li").all_text_contents()
    assert told == ["0.00 zepte head 2", "0.00 zepte head 4"]
    page.assert_quiet()


def test_a_heat_map_frames_the_chosen_word_and_tells_the_square_pointed_at(chromium) -> None:
    page = open_kinds(chromium, "#kind=cross&layer=1&heads=3&view=heat&query=2")
    assert page.tab.locator(".band").is_visible()
    assert page.tab.locator("text.chosen").text_content().startswith("Re@@")
    square = page.tab.locator(".cells rect").first
    square.hover()
    weight = f"{float(square.get_attribute('fill-opacity')):.2f}"
    assert page.tab.locator("#largest li").all_text_contents() == [f"{weight} the head 3"]
    square.click()
    page.tab.mouse.move(0, 0)
    assert page.tab.locator("text.chosen").text_content().startswith("die")
    page.tab.keyboard.press("Escape")
    assert not page.tab.locator(".band").is_visible()


@pytest.mark.parametrize("kind", MAPS)
def test_a_click_merges_pieces_to_words(chromium, kind: str) -> None:
    page = open_kinds(chromium, f"#kind={kind}&layer=1")
    page.tab.check("#whole input")
    expected = merge_words(MAPS[kind])
    assert page.tab.locator("#queries button").all_text_contents() == list(expected.queries)
    assert page.tab.locator("#keys button").all_text_contents() == list(expected.keys)
    assert_drawn(lines(page), weights(expected, 0, range(HEADS)))
    page.tab.uncheck("#whole input")
    assert_drawn(lines(page), weights(MAPS[kind], 0, range(HEADS)))


def test_sixteen_heads_of_whole_words_repeat_eight_colours_and_say_so(chromium) -> None:
    words = ("we", "cook")
    page = open_map(chromium, invented("encoder", words, words, (1, 16)))
    strokes = page.tab.eval_on_selector_all(
        "line", "all => all.map(l => [l.dataset.head - 1, l.getAttribute('stroke')])"
    )
    assert dict(strokes) == {head: LINE_COLOURS[head % 8] for head in range(16)}
    assert "a colour, which repeats after 8." in page.tab.text_content("footer")
    assert not page.tab.locator("#whole").is_visible(), "there is nothing to merge"


@pytest.mark.parametrize(("view", "drawn"), [("lines", 8000), ("heat", 40000)])
def test_five_hundred_words_are_drawn_in_part_and_the_page_says_so(chromium, view, drawn) -> None:
    words = [f"w{i}" for i in range(500)]
    one = invented("encoder", words, words, (1, 1))
    page = open_map(chromium, one, fragment=f"#view={view}", width=360)
    assert page.tab.locator(".all line, .cells rect").count() == drawn
    seen = int((one.weights > 0.5 / 4095).sum())
    said = page.tab.text_content("#omitted")
    assert re.fullmatch(rf"Drawn are the strongest {drawn:,} of {seen:,} \w+\.", said)
    attribute = {"lines": "stroke-opacity", "heat": "fill-opacity"}[view]
    faintest = page.tab.eval_on_selector_all(
        ".all line, .cells rect",
        f"all => Math.min(...all.map(one => one.getAttribute('{attribute}')))",
    )
    kth = one.weights.flatten().kthvalue(500 * 500 - drawn + 1).values
    assert faintest == pytest.approx(float(kth), abs=2 * ROUNDING)
    page.assert_fits()
    page.assert_quiet()


def test_a_page_opens_with_the_view_that_it_was_made_for(chromium) -> None:
    """Breaks if the view of the command line is lost, or if it wins over a link to another view."""
    first = merge_words(MAPS["encoder"])
    view = view_of(select(first, 1, [3, 1], first.queries[1]), "lines", "whole")
    made = attention_page(list(MAPS.values()), "t", view)
    page = chromium.show(made)
    for part in ("layer=1", "heads=1,3", "words=whole", "query=2", f"kind={first.kind}"):
        await_address(page, part)
    assert queries_shown(page) == {1}
    page = chromium.show(made, fragment="#kind=cross&view=heat")
    await_address(page, "kind=cross")
    await_address(page, "view=heat")
    page.assert_quiet()


def test_the_keyboard_alone_does_everything(chromium) -> None:
    page = open_kinds(chromium)
    press = page.tab.keyboard.press
    for keys, fragment in (
        (["Tab", "ArrowRight"], "kind=decoder"),
        (["Tab", "ArrowRight"], "layer=3"),
        (["Tab", "Space"], "heads=2,3,4"),
        (["Tab"] * (HEADS + 2) + ["ArrowRight"], "view=heat"),  # past All and None
        (["ArrowLeft"], "view=lines"),
        (["Tab"] * 3 + ["ArrowDown"], "query=2"),  # past the menu of words and whole words
        (["ArrowRight"], "key=2"),
        (["End"], "key=4"),
    ):
        for key in keys:
            press(key)
        await_address(page, fragment)
        style = "getComputedStyle(document.activeElement.closest('label')?.querySelector('span')"
        assert page.tab.evaluate(f"{style} ?? document.activeElement).outlineStyle") != "none"
    press("Escape")
    page.tab.wait_for_function("() => !location.hash.includes('key')")
    press("Enter")
    await_address(page, "key=4")
    page.assert_quiet()


def test_an_arrow_key_held_down_writes_the_address_once(chromium) -> None:
    page = open_kinds(chromium)  # browsers refuse more than about a hundred in seconds
    await_address(page, "view")
    page.tab.evaluate("""() => {
      window.writes = 0;
      const write = history.replaceState.bind(history);
      history.replaceState = (...address) => { window.writes++; write(...address); };
      const word = document.querySelector("#queries button");
      for (let i = 0; i < 50; i++) {
        const key = i % 2 ? "ArrowUp" : "ArrowDown";
        word.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true}));
      }
    }""")
    await_address(page, "query=1")
    assert page.tab.evaluate("window.writes") == 1


@pytest.mark.parametrize(
    "fragment",
    [
        "#kind=cross&layer=3&heads=2,4&view=lines&query=3",
        "#kind=decoder&layer=1&heads=1&view=heat&key=2",
        "#kind=encoder&layer=2&heads=&view=lines&words=whole",
    ],
)
def test_an_address_restores_its_view(chromium, fragment: str) -> None:
    page = open_kinds(chromium, "#" + "&".join(reversed(fragment[1:].split("&"))))
    page.tab.wait_for_function("whole => location.hash === whole", arg=fragment)
    page.tab.evaluate("location.hash = '#kind=cross&layer=1&heads=3'")
    await_address(page, "#kind=cross&layer=1&heads=3&view=lines")
    assert_drawn(lines(page), weights(MAPS["cross"], 0, [2]))


def test_a_senseless_address_shows_something_sensible(chromium) -> None:
    page = open_kinds(chromium, "#kind=x&layer=99&heads=0,-1,2,99,z&view=y&query=99&words=1")
    assert_drawn(lines(page), weights(MAPS["encoder"], LAYERS - 1, [1]))
    assert lines(page, "one") == {}
    page.assert_quiet()


@pytest.mark.parametrize(("scheme", "view"), [("light", "lines"), ("dark", "heat")])
def test_a_phone_shows_it_without_scrolling_sideways(chromium, scheme: str, view: str) -> None:
    page = open_kinds(chromium, f"#view={view}&query=2", 360, scheme)
    page.assert_fits()
    assert page.colours() > 20
    ground = page.tab.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (min(map(int, re.findall(r"\d+", ground))) > 128) == (scheme == "light")


def test_hostile_words_are_shown_as_text_and_stay_whole(chromium) -> None:
    long = "e\u0301\u0323" * 20
    words = (*HOSTILE, long)
    page = open_map(chromium, invented("encoder", words, words), title=HOSTILE[0])
    assert page.tab.locator("#queries button").all_text_contents() == list(words)
    assert page.tab.locator("h1").text_content() == HOSTILE[0]
    direction = "all => all.map(one => getComputedStyle(one).direction)"
    directions = page.tab.eval_on_selector_all("#queries button", direction)
    assert directions == ["rtl" if word == "\u05e9\u05dc\u05d5\u05dd" else "ltr" for word in words]
    choose(page, "views", "Heat maps")
    titles = page.tab.locator("figure >> nth=0 >> text.query title").all_text_contents()
    assert titles == list(words)
    label = page.tab.locator("figure >> nth=0 >> text.query").last
    assert label.evaluate("one => one.firstChild.data") == "e\u0301\u0323" * 13 + "\u2026"
    assert page.tab.locator("img, b:not(li b), script:not([id]):not([type])").count() == 0
    assert page.tab.title() == HOSTILE[0]  # no word has run
    page.assert_quiet()

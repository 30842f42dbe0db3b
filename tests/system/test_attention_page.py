"""The drawings of the HTML page of attention, in a browser."""

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

from fairseq_aiayn.attention_maps.weights import merge_words
from fairseq_aiayn.palette import LINE_COLOURS

pytest_plugins = ["browser"]


def test_the_page_opens_quietly_with_the_last_layer_but_one(chromium) -> None:
    page = open_kinds(chromium)
    assert_drawn(lines(page), weights(MAPS["encoder"], LAYERS - 2, range(HEADS)))
    assert page.tab.title() == "We love recipes"
    assert page.colours() > 50
    page.assert_quiet()


@pytest.mark.parametrize(("kind", "layer"), [("encoder", 0), ("decoder", 2), ("cross", 2)])
def test_kind_and_layer_change_the_lines(chromium, kind: str, layer: int) -> None:
    page = open_kinds(chromium)
    choose(page, "kinds", kind.capitalize())
    choose(page, "layers", str(layer + 1))
    assert_drawn(lines(page), weights(MAPS[kind], layer, range(HEADS)))
    assert page.tab.locator("#queries button").all_text_contents() == list(MAPS[kind].queries)
    assert page.tab.locator("#keys button").all_text_contents() == list(MAPS[kind].keys)
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
    page.tab.click("#queries button >> nth=2")
    page.tab.mouse.move(0, 0)
    assert_drawn(lines(page, "one"), {p: w for p, w in every.items() if p[1] == 2})
    assert not page.tab.locator("#lines .all").is_visible()
    page.tab.click("#keys button >> nth=5")
    page.tab.mouse.move(0, 0)
    assert_drawn(lines(page, "one"), {p: w for p, w in every.items() if p[2] == 5})
    page.tab.click("#keys button >> nth=5")
    page.tab.mouse.move(0, 0)
    assert lines(page, "one") == {}
    assert page.tab.locator("#lines .all").is_visible()
    page.assert_quiet()


def test_pointing_previews_a_word_and_gives_the_chosen_one_back(chromium) -> None:
    page = open_kinds(chromium, "#heads=1&query=2")
    page.tab.hover("#queries button >> nth=4")
    assert {place[1] for place in lines(page, "one")} == {4}
    page.tab.mouse.move(0, 0)
    assert {place[1] for place in lines(page, "one")} == {1}
    await_address(page, "query=2")


def test_the_largest_weights_of_a_word_are_told_as_numbers(chromium) -> None:
    page = open_kinds(chromium, "#kind=cross&layer=1&heads=2,4&query=2")
    expected = weights(MAPS["cross"], 0, [1, 3])
    row = sorted(((w, p) for p, w in expected.items() if p[1] == 1), reverse=True)
    told = [f"{w:.2f} {SOURCE[key]} head {head + 1}" for w, (head, _, key) in row if w >= 0.005]
    assert page.tab.locator("#largest li").all_text_contents() == told[:6]
    assert page.tab.text_content("#reading") == "Re@@ looks at"


def test_the_word_menu_isolates_too(chromium) -> None:
    page = open_kinds(chromium, "#heads=1")
    page.tab.select_option("#word", label="we")  # the first: among the queries
    assert {place[1] for place in lines(page, "one")} == {4}
    page.tab.select_option("#word", label="all words")
    assert lines(page, "one") == {}


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
    page.assert_quiet()


def test_a_heat_map_frames_the_chosen_word_and_tells_the_square_pointed_at(chromium) -> None:
    page = open_kinds(chromium, "#kind=cross&layer=1&heads=3&view=heat&query=2")
    assert page.tab.locator(".band").is_visible()
    assert page.tab.locator("text.chosen").text_content().startswith("Re@@")
    square = page.tab.locator(".cells rect").first
    square.hover()
    weight = f"{float(square.get_attribute('fill-opacity')):.2f}"
    assert page.tab.locator("#largest li").all_text_contents() == [f"{weight} the head 3"]
    assert page.tab.text_content("#reading") == "die looks at"
    square.click()
    page.tab.mouse.move(0, 0)
    assert page.tab.locator("text.chosen").text_content().startswith("die")
    page.tab.keyboard.press("Escape")
    assert not page.tab.locator(".band").is_visible()


def test_an_empty_square_is_told_as_nothing(chromium) -> None:
    page = open_kinds(chromium, "#kind=decoder&layer=1&heads=3&view=heat")
    frame = page.tab.locator(".frame").bounding_box()
    page.tab.mouse.move(frame["x"] + frame["width"] - 5, frame["y"] + 5)  # the first to the last
    assert page.tab.locator("#largest li").all_text_contents() == ["0.00 zepte head 3"]


@pytest.mark.parametrize("kind", MAPS)
def test_merged_words_have_the_weights_of_word_merging(chromium, kind: str) -> None:
    page = open_kinds(chromium, f"#kind={kind}&layer=1&words=whole")
    expected = merge_words(MAPS[kind])
    assert page.tab.locator("#queries button").all_text_contents() == list(expected.queries)
    assert page.tab.locator("#keys button").all_text_contents() == list(expected.keys)
    drawn = lines(page)
    assert_drawn(drawn, {p: w for p, w in weights(expected, 0, range(HEADS)).items()}, 4 * ROUNDING)
    for head in range(HEADS):
        assert sum(w for p, w in drawn.items() if p[:2] == (head, 1)) == pytest.approx(1, abs=0.002)


def test_word_pieces_of_sentencepiece_are_merged_by_a_click(chromium) -> None:
    pieces = ("\u2581my", "\u2581re", "cip", "es", "\u2581", "</s>")
    page = open_map(chromium, invented("encoder", pieces, pieces))
    page.tab.check("#whole input")
    words = page.tab.locator("#queries button").all_text_contents()
    assert words == ["my", "recipes", "\u2581", "</s>"]
    assert_drawn(
        lines(page), weights(merge_words(invented("encoder", pieces, pieces)), 1, range(4)), 0.001
    )
    page.tab.uncheck("#whole input")
    assert page.tab.locator("#queries button").count() == 6


def test_words_without_pieces_have_nothing_to_merge(chromium) -> None:
    page = open_map(chromium, invented("encoder", ("we", "cook"), ("we", "cook")))
    assert not page.tab.locator("#whole").is_visible()


def test_sixteen_heads_repeat_eight_colours_and_say_so(chromium) -> None:
    words = ("we", "cook")
    page = open_map(chromium, invented("encoder", words, words, (1, 16)))
    strokes = page.tab.eval_on_selector_all(
        "line", "all => all.map(l => [l.dataset.head - 1, l.getAttribute('stroke')])"
    )
    assert {head: stroke for head, stroke in strokes} == {
        head: LINE_COLOURS[head % 8] for head in range(16)
    }
    assert "a colour, which repeats after 8." in page.tab.text_content("footer")


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


def test_a_word_of_five_hundred_has_all_its_lines(chromium) -> None:
    words = [f"w{i}" for i in range(500)]
    one = invented("encoder", words, words, (1, 1))
    page = open_map(chromium, one, fragment="#query=500")
    every = {p: w for p, w in weights(one, 0, [0]).items() if p[1] == 499}
    assert_drawn(lines(page, "one"), every)

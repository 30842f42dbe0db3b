"""The HTML page of attention, used by keyboard, by address, on a phone and with hostile words."""

from __future__ import annotations

import re

import pytest
from attention_pages import (
    HEADS,
    LAYERS,
    MAPS,
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

pytest_plugins = ["browser"]

HOSTILE = (
    "<script>document.title='broken'</script>",
    "</script><b>x</b>",
    "<img src=x onerror=alert(1)>",
    '"it\'s"',
    "a\u2028b",
    "e\u0301\u0323a",
    "\u05e9\u05dc\u05d5\u05dd",
    "\u0645\u0631\u062d\u0628\u0627",
    "&amp;",
)


def test_a_page_opens_with_the_view_that_it_was_made_for(chromium) -> None:
    """Breaks if the view of the command line is lost, or if it wins over a link to another view."""
    first = merge_words(MAPS["encoder"])
    view = view_of(select(first, 1, [3, 1], first.queries[1]), "lines", "whole")
    page = chromium.show(attention_page(list(MAPS.values()), "t", view))
    await_address(page, "layer=1")
    for part in ("heads=1,3", "words=whole", "query=2", f"kind={first.kind}"):
        await_address(page, part)
    assert {place[1] for place in lines(page, "one")} == {1}
    page = chromium.show(
        attention_page(list(MAPS.values()), "t", view), fragment="#kind=cross&view=heat"
    )
    await_address(page, "kind=cross")
    await_address(page, "view=heat")
    page.assert_quiet()


def test_the_keyboard_alone_does_everything(chromium) -> None:
    page = open_kinds(chromium)
    press = page.tab.keyboard.press
    focused = "document.activeElement.{}"
    for name, key, fragment in (
        ("kind", "ArrowRight", "kind=decoder"),
        ("layer", "ArrowRight", "layer=3"),
    ):
        press("Tab")
        assert page.tab.evaluate(focused.format("name")) == name
        press(key)
        await_address(page, fragment)
    press("Tab")
    press("Space")
    await_address(page, "heads=2,3,4")
    for _ in range(HEADS + 2):
        press("Tab")
    press("ArrowRight")
    await_address(page, "view=heat")
    press("ArrowLeft")
    press("Tab")  # the menu of words
    press("Tab")  # whole words
    press("Tab")
    assert page.tab.evaluate(focused.format("dataset.side")) == "query"
    press("ArrowDown")
    await_address(page, "query=2")
    assert {place[1] for place in lines(page, "one")} == {1}
    press("ArrowRight")
    await_address(page, "key=2")
    press("End")
    await_address(page, "key=4")
    press("Escape")
    page.tab.wait_for_function("() => !location.hash.includes('key')")
    assert lines(page, "one") == {}
    press("Enter")
    await_address(page, "key=4")
    page.assert_quiet()


def test_whatever_has_the_focus_shows_it(chromium) -> None:
    page = open_kinds(chromium)
    outlined = """() => {
      const element = document.activeElement;
      const shown = element.matches(".row input") ? element.nextElementSibling : element;
      return [element.tagName, getComputedStyle(shown).outlineStyle, shown.offsetWidth];
    }"""
    stops = []
    for _ in range(3 + HEADS + 2 + 1 + 1 + 2):  # radios, heads, All, None, menu, box, columns
        page.tab.keyboard.press("Tab")
        stops.append(page.tab.evaluate(outlined))
    page.tab.keyboard.press("Tab")
    assert page.tab.evaluate("document.activeElement.tagName") == "BODY"
    assert all(style != "none" and width > 10 for _, style, width in stops)


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
    layer = int(fragment.split("layer=")[1][0])
    assert page.tab.locator("#layers :checked + span").text_content() == str(layer)
    page.tab.evaluate("location.hash = '#kind=cross&layer=1&heads=3'")
    await_address(page, "#kind=cross&layer=1&heads=3&view=lines")
    assert_drawn(lines(page), weights(MAPS["cross"], 0, [2]))
    page.assert_quiet()


def test_a_senseless_address_shows_something_sensible(chromium) -> None:
    page = open_kinds(chromium, "#kind=x&layer=99&heads=0,-1,2,99,z&view=y&query=99&words=1")
    assert_drawn(lines(page), weights(MAPS["encoder"], LAYERS - 1, [1]))
    assert lines(page, "one") == {}
    page.assert_quiet()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("view", ["lines", "heat"])
def test_a_phone_shows_it_without_scrolling_sideways(chromium, scheme: str, view: str) -> None:
    page = open_kinds(chromium, f"#view={view}&query=2", 360, scheme)
    page.assert_fits()
    assert page.colours() > 20
    page.assert_quiet()


def test_light_is_light_and_dark_is_dark(chromium) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    for scheme, bright in (("light", True), ("dark", False)):
        colour = open_kinds(chromium, "", 1200, scheme).tab.evaluate(ground)
        assert (min(map(int, re.findall(r"\d+", colour))) > 128) == bright


def test_hostile_words_are_shown_as_text(chromium) -> None:
    page = open_map(chromium, invented("encoder", HOSTILE, HOSTILE), title=HOSTILE[0])
    assert page.tab.locator("#queries button").all_text_contents() == list(HOSTILE)
    assert page.tab.locator("h1").text_content() == HOSTILE[0]
    for index in range(len(HOSTILE)):
        page.tab.hover(f"#keys button >> nth={index}")
        assert page.tab.text_content("#reading bdi") == HOSTILE[index]
    choose(page, "views", "Heat maps")
    titles = page.tab.locator("figure >> nth=0 >> text.query title").all_text_contents()
    assert titles == list(HOSTILE)
    assert page.tab.locator("img, b:not(li b), script:not([id]):not([type])").count() == 0
    assert page.tab.title() == HOSTILE[0]  # no word has run
    page.assert_quiet()


def test_right_to_left_words_and_combining_characters_stay_whole(chromium) -> None:
    word = "e\u0301\u0323" * 20
    page = open_map(
        chromium, invented("encoder", ("\u05e9\u05dc", word), ("\u05e9\u05dc", word)), width=360
    )
    directions = page.tab.eval_on_selector_all(
        "#queries button", "all => all.map(one => getComputedStyle(one).direction)"
    )
    assert directions == ["rtl", "ltr"]
    choose(page, "views", "Heat maps")
    label = page.tab.locator("figure >> nth=0 >> text.query >> nth=1")
    assert label.evaluate("one => one.firstChild.data") == "e\u0301\u0323" * 13 + "\u2026"
    page.assert_fits()

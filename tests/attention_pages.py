"""Invented attention, and what its page must draw and has drawn."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

import torch

from fairseq_aiayn.attention_maps.page import attention_page
from fairseq_aiayn.attention_maps.weights import AttentionMap

LAYERS, HEADS = 3, 4
ROUNDING = 0.5 / 4095 + 0.5e-4  # of the data block, and of the four digits of an opacity
SOURCE = ("the", "re@@", "cip@@", "es", "we", "lo@@", "ve", "</s>")
TARGET = ("die", "Re@@", "zepte", "</s>")
READ = ("<s>", *TARGET[:-1])


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
    "decoder": invented("decoder", TARGET, READ),
    "cross": invented("cross", TARGET, SOURCE),
}


@cache
def page_of_kinds() -> str:
    """The page of all three kinds."""
    return attention_page(list(MAPS.values()), "We love recipes")


def open_kinds(chromium, fragment: str = "", width: int = 1200, scheme: str = "light"):
    """Open the page of all three kinds."""
    return chromium.show(page_of_kinds(), width, scheme, fragment)


def open_map(chromium, one: AttentionMap, title: str = "t", fragment: str = "", width: int = 1200):
    """Open the page of one map."""
    return chromium.show(attention_page([one], title), width, fragment=fragment)


def lines(page, group: str = "all") -> dict[tuple[int, int, int], float]:
    """The opacity of each line, by head, query and key, all from 0."""
    found = page.tab.eval_on_selector_all(
        f"#lines .{group} line",
        """all => all.map(line => [line.dataset.head - 1, Math.floor(line.getAttribute("y1")),
             Math.floor(line.getAttribute("y2")), Number(line.getAttribute("stroke-opacity"))])""",
    )
    assert len({tuple(one[:3]) for one in found}) == len(found)
    return {(head, query, key): opacity for head, query, key, opacity in found}


def weights(one: AttentionMap, layer: int, heads: Sequence[int]) -> dict:
    """What a page must draw: every weight that its rounding does not make 0."""
    cells = {
        (head, query, key): float(one.weights[layer, head, query, key])
        for head in heads
        for query in range(len(one.queries))
        for key in range(len(one.keys))
    }
    return {place: weight for place, weight in cells.items() if weight > 0.5 / 4095}


def assert_drawn(drawn: dict, expected: dict, rounding: float = ROUNDING) -> None:
    """The same places, as opaque as their weights."""
    assert drawn.keys() == expected.keys()
    assert max(abs(drawn[place] - expected[place]) for place in drawn) <= rounding


def await_address(page, part: str) -> None:
    """Wait until the page's address has a part."""
    page.tab.wait_for_function("part => location.hash.includes(part)", arg=part)


def choose(page, group: str, text: str) -> None:
    """Click a choice of a group of controls."""
    page.tab.locator(f"#{group} label", has_text=re.compile(f"^{text}$")).click()

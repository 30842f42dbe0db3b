"""The HTML page of attention as a text; tests/system/test_attention_page.py opens it."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest
import torch
from faults import fault_of
from style_colours import colours_of, contrast

import fairseq_aiayn
from fairseq_aiayn.attention_maps.page import LARGEST_PAGE, attention_page
from fairseq_aiayn.attention_maps.weights import AttentionMap
from fairseq_aiayn.palette import LINE_COLOURS, line_colour

ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
SEPARATOR = "\u2028"
HOSTILE = ("</script><script>x</script>", "<!--", '"it\'s"', f"a{SEPARATOR}b", "e\u0301", "&amp;")


def invented(words: int, layers: int = 6, heads: int = 8, kind: str = "encoder") -> AttentionMap:
    """Random weights of that many words among themselves."""
    scores = torch.randn(layers, heads, words, words, generator=torch.Generator().manual_seed(7))
    names = tuple(f"w{i}" for i in range(words))
    return AttentionMap(kind, names, names, (3 * scores).softmax(-1))


def data_of(page: str) -> dict:
    """The JSON of the page's data block."""
    return json.loads(re.search(r'id="attention">(.*?)</script>', page, re.DOTALL)[1])


def test_weights_are_read_back_to_half_a_4095th() -> None:
    original = invented(9)
    text = data_of(attention_page([original], "t"))["maps"][0]["weights"]
    digits = torch.tensor([ALPHABET.index(digit) for digit in text]).view(-1, 2)
    read = (64 * digits[:, 0] + digits[:, 1]).double().view(6, 8, 9, 9) / 4095
    assert (read - original.weights.double()).abs().max() <= 0.5 / 4095 + 1e-9


def test_nothing_and_all_stay_exact() -> None:
    weights = torch.eye(2).expand(1, 1, 2, 2)
    page = attention_page([AttentionMap("decoder", ("a", "b"), ("<s>", "a"), weights)], "t")
    assert data_of(page)["maps"][0]["weights"] == "//AAAA//"


def test_three_kinds_of_thirty_words_are_a_third_of_a_megabyte() -> None:
    maps = [invented(30, kind=kind) for kind in ("encoder", "decoder", "cross")]
    assert len(attention_page(maps, "t").encode()) < 350_000


def test_a_page_over_the_limit_is_refused_and_one_below_is_not() -> None:
    assert fault_of(attention_page, [invented(500, layers=2)], "t") == (
        "the page must have at most 1,000,000 bytes, would have 8,000,000 or more: "
        "take one kind of attention, or a shorter sentence"
    )
    assert len(attention_page([invented(500, 1, 1)], "t").encode()) <= LARGEST_PAGE


def test_the_limit_counts_words_and_title_too() -> None:
    with pytest.raises(ValueError, match=r"would have 1,0\d\d,\d{3} or more"):
        attention_page([invented(2)], "é" * (LARGEST_PAGE // 4))


def test_hostile_words_end_neither_the_data_block_nor_its_json() -> None:
    weights = torch.full((1, 1, 6, 6), 1 / 6)
    page = attention_page([AttentionMap("encoder", HOSTILE, HOSTILE, weights)], "t")
    assert data_of(page)["maps"][0]["queries"] == list(HOSTILE)
    assert "<" not in re.search(r'id="attention">(.*?)</script>', page, re.DOTALL)[1]
    assert page.count("</script>") == 2  # of the data and of the program
    assert SEPARATOR not in page


def test_a_hostile_title_is_text() -> None:
    title = '</title><script>x</script> {{data}} "it\'s"'
    page = attention_page([invented(2)], title)
    assert "<script>x" not in page
    assert html.unescape(re.search("<title>(.*?)</title>", page)[1]) == title


def test_only_the_page_s_own_script_may_run_and_nothing_may_load() -> None:
    page = attention_page([invented(2)], "t")
    script = re.search(r'<script type="module">(.*?)</script>', page, re.DOTALL)[1]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in page
    assert "default-src 'none'" in page
    addresses = set(re.findall(r"https?://[^\s\"']+", page))
    assert addresses == {"http://www.w3.org/2000/svg"}  # the name of SVG, not asked for


def test_no_map_is_refused() -> None:
    with pytest.raises(ValueError, match="^maps must have at least one AttentionMap, has none$"):
        attention_page([], "t")


def test_two_maps_of_a_kind_are_refused() -> None:
    with pytest.raises(ValueError, match="^maps must be of different kinds, got cross, cross$"):
        attention_page([invented(2, kind="cross")] * 2, "t")


@pytest.mark.parametrize(("value", "said"), [(1.5, "1.5"), (-0.1, "-0.1"), (float("nan"), "nan")])
def test_what_is_no_weight_is_refused(value: float, said: str) -> None:
    one = invented(2)
    one.weights[3, 2, 1, 0] = value
    with pytest.raises(ValueError, match=f"^weights of encoder must lie in 0 to 1, got {said}$"):
        attention_page([one], "t")


def schemes() -> list[dict[str, str]]:
    """The colours of page_style.css by name, in light and in dark."""
    return colours_of(Path(fairseq_aiayn.__file__).parent / "attention_maps" / "page_style.css")


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_colours_are_legible(scheme: int) -> None:
    colours = schemes()[scheme]
    for ground in ("ground", "paper"):
        assert contrast(colours["ink"], colours[ground]) >= 7
        assert contrast(colours["muted"], colours[ground]) >= 4.5
        assert contrast(colours["accent"], colours[ground]) >= 4.5
        assert contrast(colours["edge"], colours[ground]) >= 3
    assert contrast(colours["ink"], colours["mark"]) >= 4.5
    assert contrast(colours["on-accent"], colours["accent"]) >= 4.5
    assert all(contrast(head, colours["paper"]) >= 3 for head in LINE_COLOURS)


def test_the_ninth_head_has_the_colour_of_the_first() -> None:
    assert len(set(LINE_COLOURS)) == 8
    assert [line_colour(head) for head in range(16)] == [*LINE_COLOURS, *LINE_COLOURS]


def test_the_page_s_files_are_installed_with_the_package() -> None:
    folder = Path(fairseq_aiayn.__file__).parent
    settings = tomllib.loads((folder.parent / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = settings["tool"]["setuptools"]["package-data"]["fairseq_aiayn.attention_maps"]
    others = [path.name for path in (folder / "attention_maps").iterdir() if path.suffix != ".py"]
    files = [name for name in others if name != "__pycache__"]
    assert len(files) >= 8
    assert all(any(fnmatch(name, pattern) for pattern in patterns) for name in files)

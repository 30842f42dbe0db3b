"""Pictures of attention have the weights in their lines; the page has them in its data block."""

import base64
import hashlib
import html
import json
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from matplotlib import rc_context
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

import fairseq_aiayn
from fairseq_aiayn.attention_maps.page import attention_page
from fairseq_aiayn.attention_maps.picture import (
    draw_lines,
    draw_positions,
    position_tables,
    save_picture,
)
from fairseq_aiayn.attention_maps.weights import AttentionMap, select
from fairseq_aiayn.nn.dimensions import Dimensions
from fairseq_aiayn.nn.layers import sinusoids
from fairseq_aiayn.nn.transformer import create_transformer
from fairseq_aiayn.palette import LINE_COLOURS

WORDS = ("the", "law", "with@@", "out", "the", "</s>")
HOSTILE = (
    *("</script><script>x</script>", "a&b", '"it\'s"', "$x_1$", "$\\frac$", "100%", "\\n", "{}"),
    *("שלום", "مرحبا", "e\u0301\u0302", "漢字", "\U0001f600", "<!--", "&amp;"),
)
STYLE = Path(fairseq_aiayn.__file__).parent / "attention_maps" / "page_style.css"


def attention_map(words: tuple[str, ...] = WORDS, N: int = 6, h: int = 3) -> AttentionMap:
    torch.manual_seed(0)
    weights = torch.randn(N, h, len(words), len(words)).softmax(dim=-1)
    return AttentionMap("encoder", words, words, weights)


def lines(figure: Figure) -> dict[str, list[tuple[float, float, float]]]:
    """By head: opacity, and y of either end, of every line."""
    return {
        drawn.get_gid(): [
            (colour[3], start[1], end[1])
            for colour, (start, end) in zip(drawn.get_colors(), drawn.get_segments(), strict=True)
        ]
        for drawn in figure.axes[0].collections
    }


def test_a_line_is_as_opaque_as_its_weight_between_its_words() -> None:
    """Breaks if opacity is scaled, queries and keys change sides, or rows are not in order."""
    shown = attention_map()
    figure = draw_lines(select(shown, 2, None, None))
    y = {text.get_position()[1]: text.get_text() for text in figure.axes[0].texts}
    found = lines(figure)
    assert list(found) == ["head-1", "head-2", "head-3"]
    for head, drawn in enumerate(found.values()):
        opacities = torch.tensor([opacity for opacity, _, _ in drawn])
        torch.testing.assert_close(opacities.view(6, 6).float(), shown.weights[1, head])
        for end in (1, 2):
            nearest = [min(y, key=lambda place: abs(place - line[end])) for line in drawn]
            rows = [line // 6 if end == 1 else line % 6 for line in range(36)]
            assert [y[place] for place in nearest] == [WORDS[row] for row in rows]


def test_one_word_has_its_own_lines_alone() -> None:
    shown = attention_map()
    every = lines(draw_lines(select(shown, 2, None, None)))
    figure = draw_lines(select(shown, 2, [2, 3], "law"))
    found = lines(figure)
    assert list(found) == ["head-2", "head-3"]
    for head, drawn in found.items():
        assert [opacity for opacity, *_ in drawn] == [o for o, *_ in every[head][6:12]]
        assert len({start for _, start, _ in drawn}) == 1
    black = [t.get_text() for t in figure.axes[0].texts if t.get_color() == "#1b1b1f"]
    assert black.count("the") == 2 and black.count("law") == 2, "other queries are grey"


def test_what_no_pixel_shows_is_not_drawn_and_a_rounding_error_is_no_error() -> None:
    """A decoder's later positions have weight 0; merged weights are sums."""
    weights = torch.tensor([[[[1.0000002, 0.0], [0.997, 0.003]]]])
    shown = AttentionMap("decoder", ("a", "</s>"), ("<s>", "a"), weights)
    drawn = lines(draw_lines(select(shown, None, None, None)))["head-1"]
    assert [opacity for opacity, *_ in drawn] == pytest.approx([1.0, 0.997])


def test_each_head_has_its_colour_and_a_ninth_that_of_the_first() -> None:
    figure = draw_lines(select(attention_map(h=9), None, None, None))
    colours = [to_hex(drawn.get_colors()[0]) for drawn in figure.axes[0].collections]
    assert colours == [*LINE_COLOURS, LINE_COLOURS[0]]
    legend = {text.get_text(): text.get_color() for text in figure.axes[0].texts}
    assert [legend[str(head + 1)] for head in range(9)] == colours


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_any_text_is_text_and_the_same_file_every_time(tmp_path: Path, suffix: str) -> None:
    """Breaks if a word is read as a formula or as markup, where a font lacks a character, or with
    the user's own settings of matplotlib."""
    first, second = tmp_path / f"one{suffix}", tmp_path / f"two{suffix}"
    for path, settings in ((first, {}), (second, {"text.usetex": True})):
        with rc_context(settings):
            figure = draw_lines(select(attention_map((*HOSTILE, "a\x1b[31m")), None, [1, 2], None))
            save_picture(figure, path)
    assert first.read_bytes() == second.read_bytes()
    if suffix == ".svg":
        root = ElementTree.parse(first).getroot()  # XML has no control characters
        texts = {element.text for element in root.iter("{http://www.w3.org/2000/svg}text")}
        assert {*HOSTILE, "a\\x1b[31m"} <= texts


def test_positions_are_those_of_the_paper_and_of_a_model_beside_them() -> None:
    """Breaks if a learned table (row E) is missing, cut wrong, or drawn under another name."""
    sizes = Dimensions(N=1, d_model=16, d_ff=8, h=2, d_k=4, d_v=4, P_drop=0.0)
    plain = position_tables(create_transformer(sizes, 9, 9, 1))
    assert list(plain) == ["sinusoids"] and torch.equal(plain["sinusoids"], sinusoids(100, 16))
    model = create_transformer(sizes, 9, 9, 1, learned_lengths=(40, 200))
    tables = position_tables(model)
    lengths = {name: len(table) for name, table in tables.items()}
    assert lengths == {"sinusoids": 100, "learned, encoder": 40, "learned, decoder": 100}
    assert torch.equal(tables["learned, decoder"], model.decoder.position.weight[:100])
    axes = [axes for axes in draw_positions(tables).axes if axes.get_title()]
    drawn = {axes.get_title(): torch.tensor(axes.images[0].get_array()) for axes in axes}
    for name, table in tables.items():
        torch.testing.assert_close(drawn[f"{name}: encoding"], table.detach())
        similarity = torch.einsum("id,jd->ij", table, table).detach()
        torch.testing.assert_close(drawn[f"{name}: dot products"], similarity)


def test_a_page_has_weights_and_words_as_data_and_only_its_own_script_may_run() -> None:
    """Weights are read back to half a 4095th."""
    title, shown = '</title><script>x</script> {{data}} "it\'s"', attention_map(HOSTILE)
    page = attention_page([shown], title)
    block = re.search(r'id="attention">(.*?)</script>', page, re.DOTALL)[1]
    assert "<" not in block and block.isascii()
    (data,) = json.loads(block)["maps"]
    assert data["whole"] is None, "every piece is a word"
    assert data["pieces"]["query"] == data["pieces"]["key"] == list(HOSTILE)
    read = np.frombuffer(base64.b64decode(data["pieces"]["weights"]), "<u2") / 4095
    weights = shown.weights.double().flatten().numpy()
    assert np.abs(read - weights).max() <= 0.5 / 4095 + 1e-9
    assert page.count("</script>") == 2  # of the data and of the program
    assert html.unescape(re.search("<title>(.*?)</title>", page)[1]) == title
    script = re.search(r'<script type="module">(.*?)</script>', page, re.DOTALL)[1]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in page
    assert "default-src 'none'" in page
    addresses = set(re.findall(r"https?://[^\s\"']+", page))
    assert addresses == {"http://www.w3.org/2000/svg"}  # the name of SVG, not asked for


def contrast(one: str, other: str) -> float:
    """WCAG's contrast ratio of two colours #rrggbb, 1 to 21."""

    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    darker, lighter = sorted(map(luminance, (one, other)))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_colours_are_legible(scheme: int) -> None:
    part = STYLE.read_text(encoding="utf-8").split("@media")[scheme]
    colours = dict(re.findall(r"--([\w-]+): (#\w{6})", part))
    for ground in ("ground", "paper"):
        for name, least in {"ink": 7, "muted": 4.5, "accent": 4.5, "edge": 3}.items():
            assert contrast(colours[name], colours[ground]) >= least
    assert contrast(colours["ink"], colours["mark"]) >= 4.5
    assert contrast(colours["on-accent"], colours["accent"]) >= 4.5
    assert all(contrast(head, colours["paper"]) >= 3 for head in LINE_COLOURS)

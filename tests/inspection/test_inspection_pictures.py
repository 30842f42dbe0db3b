"""Pictures of attention: what is chosen, what is drawn of it, and what stands in the files."""

from __future__ import annotations

import warnings
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch
from faults import fault_of
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from fairseq_aiayn.attention_maps import picture
from fairseq_aiayn.attention_maps.picture import (
    draw_heat_maps,
    draw_lines,
    draw_lines_by_head,
    draw_positions,
    position_tables,
    save_picture,
    sinusoid_table,
    undrawable,
)
from fairseq_aiayn.attention_maps.weights import LONGEST, AttentionMap, require_readable, select
from fairseq_aiayn.nn.layers import Dimensions, sinusoids
from fairseq_aiayn.nn.transformer import create_transformer
from fairseq_aiayn.palette import LINE_COLOURS

WORDS = ("the", "law", "with@@", "out", "the", "</s>")
HOSTILE = (
    *("<script>alert(1)</script>", "a&b", '"quoted"', "$x_1$", "$\\frac$", "100%", "\\n", "{}"),
    *("שלום", "مرحبا", "e\u0301\u0302", "漢字", "\u2028", "\u200b", "\U0001f600"),
)


def attention_map(words: tuple[str, ...] = WORDS, N: int = 6, h: int = 3) -> AttentionMap:
    torch.manual_seed(0)
    weights = torch.randn(N, h, len(words), len(words)).softmax(dim=-1)
    return AttentionMap("encoder", words, words, weights)


def lines(figure: Figure) -> dict[str, list[tuple[float, float, float]]]:
    """By head: opacity, and y of either end, of every line."""
    found = {}
    for axes in figure.axes:
        for drawn in axes.collections:
            assert isinstance(drawn, LineCollection)
            ends = [(start[1], end[1]) for start, end in drawn.get_segments()]
            found[drawn.get_gid()] = [
                (colour[3], *y) for colour, y in zip(drawn.get_colors(), ends, strict=True)
            ]
    return found


def texts(figure: Figure) -> list[str]:
    return [text.get_text() for axes in figure.axes for text in axes.texts]


def written(path: Path) -> list[str]:
    """The text elements of an SVG file."""
    root = ElementTree.parse(path).getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert not list(root.iter("{http://www.w3.org/2000/svg}script"))
    return [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]


def test_the_layer_is_the_last_but_one_unless_it_is_chosen() -> None:
    """Figures 3 to 5: 5 of 6."""
    chosen = select(attention_map(), None, None, None)
    assert (chosen.layer, chosen.heads, chosen.queries) == (4, (0, 1, 2), (0, 1, 2, 3, 4, 5))
    assert select(attention_map(N=1), None, None, None).layer == 0
    assert select(attention_map(), 6, [3, 1, 3], None).heads == (2, 0)
    assert select(attention_map(), 6, [1], None).layer == 5


@pytest.mark.parametrize(
    ("layer", "heads", "word", "message"),
    [
        (0, None, None, "the layer must be 1 to 6, got 0"),
        (7, None, None, "the layer must be 1 to 6, got 7"),
        (None, [1, 4], None, "a head must be 1 to 3, got 4"),
        (None, [0], None, "a head must be 1 to 3, got 0"),
        (
            *(None, None, "The"),
            "'The' is none of the words to choose from: the law without </s>",
        ),
    ],
)
def test_what_a_map_does_not_have_is_refused(layer, heads, word, message) -> None:
    assert fault_of(select, attention_map(), layer, heads, word) == message


def test_a_word_is_chosen_each_time_it_occurs_with_all_of_its_pieces() -> None:
    assert select(attention_map(), None, None, "the").queries == (0, 4)
    assert select(attention_map(), None, None, "without").queries == (2, 3)
    assert select(attention_map(), None, None, "with@@").queries == (2,)


def test_a_sentence_is_too_long_for_a_picture_from_a_limit_on() -> None:
    require_readable(AttentionMap("cross", ("a",), ("b",) * LONGEST, torch.ones(1, 1, 1, 120)))
    with pytest.raises(ValueError, match="at most 120 words or pieces a side, got 500"):
        require_readable(AttentionMap("cross", ("a",), ("b",) * 500, torch.ones(1, 1, 1, 500)))


def test_a_line_is_as_opaque_as_its_weight_between_its_words() -> None:
    """Breaks if opacity is scaled, queries and keys change sides, or rows are not in order."""
    shown = attention_map()
    found = lines(draw_lines(select(shown, 2, None, None)))
    assert list(found) == ["head-1", "head-2", "head-3"]
    for head, drawn in enumerate(found.values()):
        weights = shown.weights[1, head]
        assert len(drawn) == weights.numel()
        opacities = torch.tensor([opacity for opacity, _, _ in drawn])
        torch.testing.assert_close(opacities.view_as(weights).float(), weights)
        queries = [start for _, start, _ in drawn[:: len(WORDS)]]
        keys = [end for _, _, end in drawn[: len(WORDS)]]
        assert queries == sorted(queries) and keys == sorted(keys)
        assert all(start == queries[n // len(WORDS)] for n, (_, start, _) in enumerate(drawn))


def test_a_weight_that_no_pixel_shows_is_not_drawn() -> None:
    """A decoder's later positions have weight 0."""
    weights = torch.tensor([[[[1.0, 0.0], [0.997, 0.003]]]])
    shown = AttentionMap("decoder", ("a", "</s>"), ("<s>", "a"), weights)
    assert len(lines(draw_lines(select(shown, None, None, None)))["head-1"]) == 2


def test_a_rounding_error_above_one_is_no_error() -> None:
    """Merged weights are sums."""
    weights = torch.tensor([[[[1.0000002, 0.0], [0.5, 0.5]]]])
    shown = AttentionMap("encoder", ("a", "b"), ("a", "b"), weights)
    selection = select(shown, None, None, "a")
    assert lines(draw_lines(selection))["head-1"][0][0] == 1.0
    draw_heat_maps(selection)


@pytest.mark.parametrize("draw", [draw_lines, draw_lines_by_head, draw_heat_maps])
def test_nothing_is_written_outside_of_the_picture(draw) -> None:
    """Breaks where a column is too narrow for its words, or a row for the numbers of 32 heads."""
    words = ("a" * 31, "i", "</s>")
    figure = draw(select(attention_map(words, h=32), None, None, "i"))
    figure.canvas = FigureCanvasAgg(figure)
    width, height = figure.bbox.max
    for axes in figure.axes:
        for text in axes.texts:
            box = text.get_window_extent(figure.canvas.get_renderer())
            assert 0 <= box.x0 and box.x1 <= width and 0 <= box.y0 and box.y1 <= height


def test_one_word_has_its_own_lines_alone_and_squares_beside_what_it_attends_to() -> None:
    shown = attention_map()
    every = lines(draw_lines(select(shown, 2, None, None)))
    figure = draw_lines(select(shown, 2, [2, 3], "law"))
    found = lines(figure)
    assert list(found) == ["head-2", "head-3"]
    for head, drawn in found.items():
        assert [opacity for opacity, *_ in drawn] == [o for o, *_ in every[head][6:12]]
        assert len({start for _, start, _ in drawn}) == 1
    squares = [p for axes in figure.axes for p in axes.patches if isinstance(p, Rectangle)]
    opacities = [p.get_facecolor()[3] for p in squares if p.get_facecolor()[3] < 1]
    expected = shown.weights[1, 1:, 1].flatten().tolist()
    assert sorted(opacities) == pytest.approx(sorted(expected))
    grey = {t.get_text() for axes in figure.axes for t in axes.texts if t.get_color() != "#1b1b1f"}
    assert {"the", "out"} < grey and "law" not in grey


def test_each_head_has_its_colour_and_in_small_drawings_its_own_axes() -> None:
    shown = attention_map(h=9)
    for draw, drawings in ((draw_lines, 1), (draw_lines_by_head, 9)):
        figure = draw(select(shown, None, None, None))
        colours = [to_hex(c.get_colors()[0]) for axes in figure.axes for c in axes.collections]
        assert colours == [*LINE_COLOURS, LINE_COLOURS[0]]
        assert sum(bool(axes.collections) for axes in figure.axes) == drawings
        assert texts(figure).count("law") == 2 * drawings


def test_heat_maps_have_the_weights_on_one_scale() -> None:
    shown = attention_map()
    figure = draw_heat_maps(select(shown, 1, [3, 1], None))
    images = [image for axes in figure.axes for image in axes.images]
    for image, head in zip(images, (2, 0), strict=True):
        assert image.get_clim() == (0, 1)
        torch.testing.assert_close(torch.tensor(image.get_array()), shown.weights[0, head])
        assert to_hex(image.to_rgba(1.0)) == LINE_COLOURS[head]
        assert to_hex(image.to_rgba(0.0)) == "#ffffff"
    isolated = draw_heat_maps(select(shown, 1, [1], "the"))
    (image,) = (image for axes in isolated.axes for image in axes.images)
    torch.testing.assert_close(torch.tensor(image.get_array()), shown.weights[0, 0, [0, 4]])


@pytest.mark.parametrize("draw", [draw_lines, draw_lines_by_head, draw_heat_maps])
def test_any_text_is_text(draw, tmp_path: Path) -> None:
    """Breaks if a word is read as a formula or as markup, or where a font lacks a character."""
    figure = draw(select(attention_map(HOSTILE), None, [1, 2], None))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for suffix in picture.FORMATS:
            save_picture(figure, tmp_path / f"picture{suffix}")
    found = written(tmp_path / "picture.svg")
    assert set(HOSTILE) - set(found) == set()
    assert "<script>" not in (tmp_path / "picture.svg").read_text(encoding="utf-8")


def test_control_characters_and_endless_words_are_drawn_otherwise(tmp_path: Path) -> None:
    """No XML can have the first, no reader wants the second."""
    words = ("a\x1b[31m", "b\udc80\uffff", "c" * 1000, "</s>")
    figure = draw_lines(select(attention_map(words), None, None, None))
    save_picture(figure, tmp_path / "picture.svg")
    assert {"a\ufffd[31m", "b\ufffd\ufffd", "c" * 31 + "…"} < set(written(tmp_path / "picture.svg"))


def test_what_no_font_has_is_told() -> None:
    assert undrawable(["plain", "e\u0301", "שלום"]) == ""
    assert undrawable(["x\U0010fffd", "\U0010fffd"]) == "\U0010fffd"


def test_a_png_is_for_print_and_the_same_file_every_time(tmp_path: Path) -> None:
    for suffix in picture.FORMATS:
        for name in ("one", "two"):
            figure = draw_lines(select(attention_map(), None, None, None))
            save_picture(figure, tmp_path / f"{name}{suffix}")
        first, second = ((tmp_path / f"{name}{suffix}").read_bytes() for name in ("one", "two"))
        assert first == second
    width = int.from_bytes((tmp_path / "one.png").read_bytes()[16:20], "big")
    assert width >= 150 * (figure.get_figwidth() - 0.01)


def test_a_picture_appears_whole_or_not_at_all(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "picture.png"
    path.write_bytes(b"before")
    figure = Figure()

    def fail(part: Path, **options: object) -> None:
        part.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(figure, "savefig", fail)
    with pytest.raises(OSError, match="No space left"):
        save_picture(figure, path)
    assert [file.read_bytes() for file in tmp_path.iterdir()] == [b"before"]
    with pytest.raises(ValueError, match=r"x.gif: a picture must be .png, .svg, .pdf, is .gif"):
        save_picture(figure, tmp_path / "x.gif")


def test_positions_are_those_of_the_paper_and_of_a_model_beside_them() -> None:
    """Breaks if a learned table (row E) is missing, cut wrong, or drawn under another name."""
    sizes = Dimensions(N=1, d_model=16, d_ff=8, h=2, d_k=4, d_v=4, P_drop=0.0)
    plain = position_tables(create_transformer(sizes, 9, 9, 1))
    assert list(plain) == list(sinusoid_table(16)) == ["sinusoids"]
    assert torch.equal(plain["sinusoids"], sinusoids(100, 16))
    model = create_transformer(sizes, 9, 9, 1, learned_lengths=(40, 200))
    tables = position_tables(model)
    assert [(name, len(table)) for name, table in tables.items()] == [
        ("sinusoids", 100),
        ("learned, encoder", 40),
        ("learned, decoder", 100),
    ]
    assert torch.equal(tables["learned, decoder"], model.decoder.position.weight[:100])
    figure = draw_positions(tables)
    images = [torch.tensor(image.get_array()) for axes in figure.axes for image in axes.images]
    images = [image for image in images if image.dim() == 2 and image.size(1) in (16, 40, 100)]
    drawn = dict(zip([axes.get_title() for axes in figure.axes if axes.get_title()], images))
    for name, table in tables.items():
        torch.testing.assert_close(drawn[f"{name}: encoding"], table.detach())
        similarity = torch.einsum("id,jd->ij", table, table).detach()
        torch.testing.assert_close(drawn[f"{name}: dot products"], similarity)


def test_dot_products_of_sinusoids_depend_on_the_distance_alone() -> None:
    """Section 3.5: PE(pos + k) is a linear function of PE(pos); d_model/2 at distance 0."""
    table = sinusoid_table(32)["sinusoids"].double()
    similarity = table @ table.T
    for distance in (0, 1, 7):
        diagonal = similarity.diagonal(distance)
        torch.testing.assert_close(diagonal, diagonal[0].expand_as(diagonal), rtol=0, atol=1e-5)
    assert similarity[5, 5].item() == pytest.approx(16.0)

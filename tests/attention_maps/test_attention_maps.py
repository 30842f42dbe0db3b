"""Attention weights are those that a running model uses; words are merged, heads selected; pictures
have the weights in their lines, the page in its data block."""

import base64
import hashlib
import html
import json
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch
from faults import fault_of
from hypothesis import given
from hypothesis import strategies as st
from matplotlib import rc_context
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from torch import Tensor, nn

import fairseq_aiayn
from fairseq_aiayn.attention_maps.page import attention_page
from fairseq_aiayn.attention_maps.picture import (
    draw_lines,
    draw_positions,
    position_tables,
    save_picture,
)
from fairseq_aiayn.attention_maps.weights import (
    AttentionMap,
    all_attention_weights,
    attentions,
    longest_word,
    merge_words,
    select,
    words_of_pieces,
)
from fairseq_aiayn.nn.attention import MultiHeadAttention
from fairseq_aiayn.nn.dimensions import Dimensions
from fairseq_aiayn.nn.layers import sinusoids
from fairseq_aiayn.nn.transformer import Transformer, create_transformer
from fairseq_aiayn.palette import LINE_COLOURS

# With d_v of at least the 4 keys and d_model of at least 3 · 4, a layer's output has one cause only
DIMENSIONS = Dimensions(N=2, d_model=12, d_ff=16, h=3, d_k=5, d_v=4, P_drop=0.4)
PAD, V = 1, 20
SOURCE, TARGET = torch.tensor([7, 4, 9, 2]), torch.tensor([2, 5, 6])


@pytest.fixture
def model() -> Transformer:
    """In float64, with weights that make attention far from even."""
    torch.manual_seed(3)
    model = create_transformer(DIMENSIONS, V, V, PAD).double().eval()
    with torch.no_grad():
        for layers in attentions(model).values():
            for attention in layers:
                attention.W_QKV.weight *= 3
    return model


def attended(module: MultiHeadAttention, weights: Tensor, memory: Tensor) -> Tensor:
    """Concat(head_1, …, head_h)W^O of weights [h, Q, K]: [Q, d_model]."""
    values = memory @ module.W_QKV.weight[-module.projection_sizes[2] :].T
    heads = [w @ v for w, v in zip(weights, values.chunk(module.h, dim=1), strict=True)]
    return torch.cat(heads, dim=1) @ module.W_O.weight.T


@torch.no_grad()
def test_the_output_of_every_layer_is_that_of_its_weights(model: Transformer) -> None:
    """Breaks if queries and keys are swapped, or layers, heads or kinds change places."""
    found = all_attention_weights(model, SOURCE, TARGET)
    calls: dict[nn.Module, tuple[tuple, Tensor]] = {}
    for layers in attentions(model).values():
        for module in layers:
            module.register_forward_hook(
                lambda module, inputs, output: calls.update({module: (inputs, output[0])})
            )
    model(SOURCE[None], TARGET[None])
    for kind, (Q, K) in {"encoder": (4, 4), "decoder": (3, 3), "cross": (3, 4)}.items():
        assert found[kind].shape == (2, 3, Q, K)
        for n, layer in enumerate((model.encoder if kind == "encoder" else model.decoder).layers):
            module = layer.cross_attention if kind == "cross" else layer.self_attention
            inputs, output = calls[module]
            memory = inputs[kind == "cross"][0]
            torch.testing.assert_close(attended(module, found[kind][n], memory), output)


@pytest.mark.parametrize("real", [slice(0, 4), slice(2, 6)], ids=["right", "left"])
def test_rows_sum_to_one_and_what_is_illegal_gets_exactly_nothing(model: Transformer, real) -> None:
    """Breaks if a mask is left out: padding on either side, later target positions."""
    padded = torch.full((6,), PAD)
    padded[real] = SOURCE
    found = all_attention_weights(model, padded, TARGET)
    for weights in found.values():
        torch.testing.assert_close(weights.sum(dim=-1), torch.ones_like(weights[..., 0]))
    assert (found["encoder"][..., padded.eq(PAD)] == 0).all()
    assert (found["cross"][..., padded.eq(PAD)] == 0).all()
    assert (found["decoder"].triu(1) == 0).all()
    alone = all_attention_weights(model, SOURCE, TARGET)
    torch.testing.assert_close(found["encoder"][..., real, real], alone["encoder"])
    torch.testing.assert_close(found["cross"][..., real], alone["cross"])
    torch.testing.assert_close(found["decoder"], alone["decoder"])


def test_a_model_that_trains_is_left_as_it_was(model: Transformer) -> None:
    """Breaks if dropout is on meanwhile, or a hook or a gradient stays, also after an error."""
    expected = all_attention_weights(model, SOURCE, TARGET)
    found = all_attention_weights(model.train(), SOURCE, TARGET)
    for kind, weights in expected.items():
        torch.testing.assert_close(found[kind], weights, rtol=0, atol=0)
        assert not found[kind].requires_grad
    with pytest.raises(IndexError):
        all_attention_weights(model, SOURCE, torch.tensor([2, V]))
    assert all(module.training for module in model.modules())
    assert not any(module._forward_pre_hooks for module in model.modules())


WORDS = ("the", "law", "with@@", "out", "the", "</s>")


def attention_map(
    queries: tuple[str, ...] = WORDS, keys: tuple[str, ...] | None = None, h: int = 3
) -> AttentionMap:
    torch.manual_seed(0)
    keys = keys or queries
    weights = torch.randn(6, h, len(queries), len(keys)).softmax(dim=-1)
    return AttentionMap("encoder", queries, keys, weights)


def test_weights_are_summed_over_keys_and_averaged_over_queries() -> None:
    """Breaks with sums or means on both sides; numbers by hand."""
    weights = torch.tensor([[[[0.5, 0.25, 0.25], [0.1, 0.2, 0.7], [0.0, 1.0, 0.0]]]])
    words = merge_words(AttentionMap("encoder", ("a@@", "b", "c"), ("a@@", "b", "c"), weights))
    assert (words.kind, words.queries, words.keys) == ("encoder", ("ab", "c"), ("ab", "c"))
    torch.testing.assert_close(words.weights, torch.tensor([[[[0.525, 0.475], [1.0, 0.0]]]]))


PIECES = st.lists(
    st.sampled_from(["a", "b@@", "@@", "@", "\u2581c", "\u2581", "<unk>", "</s>"]), min_size=1
)


@given(PIECES, PIECES)
def test_every_piece_is_of_one_word_and_rows_still_sum_to_one(queries, keys) -> None:
    words = words_of_pieces(tuple(queries))
    assert [i for word in words for i in word.pieces] == [*range(len(queries))]
    assert all(word.text for word in words)
    merged = merge_words(attention_map(tuple(queries), tuple(keys))).weights
    torch.testing.assert_close(merged.sum(dim=-1), torch.ones_like(merged[..., 0]))


@pytest.mark.parametrize(
    ("pieces", "words"),
    [
        (("snow@@", "plo@@", "ugh", "ing", "</s>"), ("snowplough", "ing", "</s>")),
        (("\u2581snow", "plough", "\u2581ing", "</s>"), ("snowplough", "ing", "</s>")),
        (("<s>", "a@@", "b"), ("<s>", "ab")),
        (("a@@", "</s>"), ("a", "</s>")),  # a translation that ends within a word
        (("\u2581a", "<unk>", "b", "</s>"), ("a", "<unk>", "b", "</s>")),
        (("\u2581", "</s>"), ("\u2581", "</s>")),
        (("a", "\u2581b"), ("a", "b")),  # a model without a mark at the beginning
        (("@", "-@", "@@", "x"), ("@", "-@", "x")),
    ],
)
def test_marks_of_pieces_are_taken_off_and_symbols_stay_alone(pieces, words) -> None:
    assert merge_words(attention_map(pieces, ("k",))).queries == words


def test_all_heads_and_queries_of_the_last_layer_but_one_are_shown_unless_chosen() -> None:
    """Figures 3 to 5: 5 of 6; of cross-attention, the last.

    A word is chosen each time it occurs, with all of its pieces."""
    shown = attention_map()
    chosen = select(shown, None, None, None)
    assert (chosen.layer, chosen.heads, chosen.queries) == (4, (0, 1, 2), (0, 1, 2, 3, 4, 5))
    assert select(shown, 6, [3, 1, 3], None).heads == (2, 0)
    assert select(shown, 6, [1], None).layer == 5
    assert select(replace(shown, kind="cross"), None, None, None).layer == 5
    single = AttentionMap("encoder", WORDS, WORDS, shown.weights[:1])
    assert select(single, None, None, None).layer == 0
    for word, queries in {"the": (0, 4), "without": (2, 3), "with@@": (2,)}.items():
        assert select(shown, None, None, word).queries == queries


@pytest.mark.parametrize(
    ("queries", "word"),
    [
        (("Re@@", "zepte", "und", "</s>"), "Rezepte"),
        (("the", "cat", "saw", "</s>"), "the"),
        (("a", "</s>"), "a"),
        (("</s>",), "</s>"),
    ],
)
def test_the_longest_word_is_the_first_of_that_length_and_no_special_piece(queries, word) -> None:
    assert longest_word(attention_map(queries, ("k",))) == word


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        *(((0, None, None), "1 to 6, got 0"), ((7, None, None), "1 to 6, got 7")),
        *(((None, [1, 4], None), "1 to 3, got 4"), ((None, [0], None), "1 to 3, got 0")),
        ((None, None, "The"), "the words to choose from: the law without </s>"),
    ],
)
def test_what_a_map_does_not_have_is_refused(choice, message) -> None:
    assert message in fault_of(select, attention_map(), *choice)


HOSTILE = (
    *("</script><script>x</script>", "a&b", '"it\'s"', "$x_1$", "$\\frac$", "100%", "\\n", "{}"),
    *("שלום", "مرحبا", "e\u0301\u0302", "漢字", "\U0001f600", "<!--", "&amp;"),
)
STYLE = Path(fairseq_aiayn.__file__).parent / "attention_maps" / "page_style.css"


def lines(figure: Figure) -> dict[str, dict[tuple[int, int], float]]:
    """By head: the opacity of the line between two rows."""
    return {
        drawn.get_gid(): {
            (round(start[1]), round(end[1])): colour[3]
            for colour, (start, end) in zip(drawn.get_colors(), drawn.get_segments(), strict=True)
        }
        for drawn in figure.axes[0].collections
    }


@pytest.mark.parametrize(("heads", "word"), [(None, None), ([3, 2], "without"), ([2], "the")])
def test_a_line_is_as_opaque_as_its_weight_between_its_words(heads, word) -> None:
    """Breaks if opacity is scaled, queries and keys change sides, or rows are not in order."""
    chosen = select(attention_map(), 2, heads, word)
    figure = draw_lines(chosen)
    assert lines(figure) == {
        f"head-{head + 1}": {
            (query, key): pytest.approx(chosen.map.weights[1, head, query, key].item())
            for query in chosen.queries
            for key in range(len(WORDS))
        }
        for head in chosen.heads
    }
    texts = [text for text in figure.axes[0].texts if text.get_position()[1] >= 0]
    columns = [[text for text in texts if text.get_ha() == side] for side in ("right", "left")]
    for column in columns:
        assert [(t.get_position()[1], t.get_text()) for t in column] == [*enumerate(WORDS)]
    black = {row for row, text in enumerate(columns[0]) if text.get_color() == "#1b1b1f"}
    assert black == {*chosen.queries}, "other queries are grey"


def test_what_no_pixel_shows_is_not_drawn_and_a_rounding_error_is_no_error() -> None:
    """A decoder's later positions have weight 0; merged weights are sums."""
    weights = torch.tensor([[[[1.0000002, 0.0], [0.997, 0.003]]]])
    shown = AttentionMap("decoder", ("a", "</s>"), ("<s>", "a"), weights)
    drawn = lines(draw_lines(select(shown, None, None, None)))["head-1"]
    assert drawn == pytest.approx({(0, 0): 1.0, (1, 0): 0.997})


@pytest.mark.parametrize("chosen", [range(1, 10), (2, 9, 5)])
def test_each_head_has_its_colour_and_a_ninth_that_of_the_first(chosen) -> None:
    """Breaks if the colour is that of the place among the heads that are drawn."""
    (axes,) = draw_lines(select(attention_map(h=9), None, [*chosen], None)).axes
    every = [*LINE_COLOURS, LINE_COLOURS[0]]
    legend = {text.get_text(): text.get_color() for text in axes.texts}
    for head, drawn in zip(chosen, axes.collections, strict=True):
        assert to_hex(drawn.get_colors()[0]) == legend[str(head)] == every[head - 1]


@pytest.mark.filterwarnings("ignore:Glyph")
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
    title, shown = '</title><script>x</script> {{data}} "it\'s"', attention_map(HOSTILE)
    page = attention_page([shown], title, "", title)
    block = re.search(r'id="attention">(.*?)</script>', page, re.DOTALL)[1]
    assert "<" not in block and block.isascii()
    (data,) = json.loads(block)["maps"]
    assert data["whole"] is None, "every piece is a word"
    assert data["pieces"]["query"] == data["pieces"]["key"] == list(HOSTILE)
    read = torch.tensor(data["pieces"]["levels"]) / 4095
    torch.testing.assert_close(read, shown.weights.flatten(), atol=0.51 / 4095, rtol=0)
    assert page.count("</script>") == 2  # of the data and of the program
    assert html.unescape(re.search("<title>(.*?)</title>", page)[1]) == title
    script = re.search(r'<script type="module">(.*?)</script>', page, re.DOTALL)[1]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in page
    assert "default-src 'none'" in page
    assert not re.search("https?://", page)


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

"""aiayn attention: pictures and pages of a small model, and what is refused."""

import re
import sys
from pathlib import Path
from urllib.parse import parse_qsl
from xml.etree import ElementTree

import pytest
import torch
from small_models import Small, small_model

from fairseq_aiayn.attention_maps import picture
from fairseq_aiayn.attention_maps.weights import all_attention_weights
from fairseq_aiayn.cli.attention import attention_maps, shown_pieces
from fairseq_aiayn.inference.pytorch import Translator

SOURCE, TARGET = "the cat saw", "saw the saw"


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Small:
    return small_model(tmp_path_factory.mktemp("small"))


@pytest.fixture
def given(small: Small) -> tuple[str | Path, ...]:
    model = ("--checkpoint", small.checkpoint, "--data-bin", small.data)
    return (*model, "--bpe-codes", small.codes, "--source", SOURCE)


def written(path: Path) -> list[str]:
    root = ElementTree.parse(path).getroot()
    return [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]


def test_a_picture_of_each_kind_in_each_format(aiayn, given, tmp_path):
    """Without --target, the model translates if the kind needs it, and prints the translation."""
    path = tmp_path / "picture.svg"
    drawn = aiayn("attention", *given, "--merge", "--output", path)
    assert drawn == (0, f"{path}\n", "")
    assert "Encoder self-attention, layer 1 of 2" in written(path)
    assert {*SOURCE.split(), "</s>"} < set(written(path)) and "<s>" not in written(path)
    for kind in ("decoder", "cross"):
        status, out, err = aiayn("attention", *given, "--kind", kind, "--merge", "--output", path)
        assert (status, err) == (0, "") and out.startswith("translation: ")
        assert ("<s>" in written(path)) == (kind == "decoder")
        assert (set(SOURCE.split()) < set(written(path))) == (kind == "cross")
    more = ("--target", TARGET, "--kind", "cross", "--layer", 2, "--heads", 2, "--word", "saw")
    assert aiayn("attention", *given, *more, "--merge", "--output", path) == (0, f"{path}\n", "")
    assert "Encoder-decoder attention, layer 2 of 2" in written(path)
    for suffix, start in ((".png", b"\x89PNG"), (".pdf", b"%PDF")):
        assert aiayn("attention", *given, "--output", path.with_suffix(suffix))[0] == 0
        assert path.with_suffix(suffix).read_bytes().startswith(start)


def test_a_page_opens_where_the_word_is(aiayn, given, refused, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "fairseq_aiayn.attention_maps.picture", None)
    page = tmp_path / "page.html"
    more = (*given, "--target", "saw hat the", "--output", page)

    def kinds_and_view(*options: object) -> tuple[list[str], dict[str, str]]:
        assert aiayn("attention", *more, *options) == (0, f"{page}\n", "")
        text = page.read_text(encoding="utf-8")
        (view,) = re.findall(r'"start":"([^"]*)"', text)
        return re.findall(r'"kind":\s*"(\w+)"', text), dict(parse_qsl(view))

    every = ["encoder", "decoder", "cross"]
    kinds, view = kinds_and_view()
    assert (kinds, view["kind"], view["layer"], view["query"]) == (every, "cross", "2", "1")
    assert '<p dir="auto">saw hat the</p>' in page.read_text(encoding="utf-8")
    kinds, view = kinds_and_view("--word", "hat", "--layer", 1, "--merge")
    assert (kinds, view["kind"], view["layer"], view["query"]) == (every, "cross", "1", "2")
    kinds, view = kinds_and_view("--word", "cat", "--merge")  # is in the source alone
    assert (kinds, view["kind"], view["layer"], view["query"]) == (every, "encoder", "1", "2")
    assert kinds_and_view("--kind", "encoder")[0] == ["encoder"]
    line = refused("attention", *more, "--word", "w99", "--merge")
    assert "'w99' is none of the words to choose from: saw hat the </s>" in line


def test_maps_are_named_by_what_is_written_and_what_is_read(small):
    """Breaks if the target is not shifted, or if a row has the label of the token read there."""
    translator = Translator(small.read())
    source, target = translator.cut_source(SOURCE), translator.cut_target(TARGET)
    maps = attention_maps(translator, [source, target])
    columns, rows = (*source, "</s>"), (*target, "</s>")
    assert [(shown.kind, shown.queries, shown.keys) for shown in maps] == [
        ("encoder", columns, columns),
        ("decoder", rows, ("<s>", *target)),
        ("cross", rows, columns),
    ]
    number = translator.target.number
    read = torch.tensor([number[piece] for piece in ("</s>", *target)])
    numbers = torch.tensor(translator.source.numbers(source))
    expected = all_attention_weights(translator.transformer, numbers, read)
    assert all(torch.equal(shown.weights, expected[shown.kind]) for shown in maps)
    assert [shown.kind for shown in attention_maps(translator, [source])] == ["encoder"]


def test_a_piece_that_the_dictionary_lacks_is_named_and_drawn(aiayn, small, tmp_path):
    path, hostile = tmp_path / "picture.svg", "</script><script>alert(1)</script>"
    model = ("--checkpoint", small.checkpoint, "--data-bin", small.data, "--output", path)
    status, out, err = aiayn("attention", *model, "--source", f"the שלום {hostile}")
    assert (status, out) == (0, f"{path}\n")
    for piece in ("שלום", hostile):
        assert f"{piece!r} is not in the dictionary, the model reads <unk>\n" in err
    assert "שלום" in written(path) and "<script" not in path.read_text(encoding="utf-8")


def test_a_picture_says_that_no_font_has_a_character(aiayn, given, tmp_path, monkeypatch):
    monkeypatch.setitem(picture.STYLE, "font.family", ["DejaVu Sans"])
    for name, source, count in ((".pdf", "鬱 鬱", 1), (".pdf", "cat", 0), (".svg", "鬱", 0)):
        words = "--source", source, "--output", tmp_path / f"picture{name}"
        said = aiayn("attention", *given, *words)[2]
        assert said.count("missing from font(s) DejaVu Sans. Install one") == count


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--output x.gif", "--output must end in"),
        ("--target \u2028 --output x.png", "a sentence with words, got none"),
        ("--checkpoint nowhere --output x.png", "nowhere: No such file"),
        (f"--target {1_025 * 'x'} --output x.html", "expected at most 1,024 tokens, got 1,025"),
    ],
)
def test_bad_input_is_one_line(arguments, message, refused, given, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert message in refused("attention", *given, *arguments.split(" "))
    assert not list(tmp_path.iterdir())


def test_positions_of_the_paper_and_of_a_model(aiayn, tmp_path):
    path = tmp_path / "positions.svg"
    assert aiayn("attention", "--positions", "--output", path) == (0, f"{path}\n", "")
    assert "learned, encoder: encoding" not in written(path)
    learned = small_model(tmp_path / "learned", "learned positions")
    model = ("--checkpoint", learned.checkpoint, "--data-bin", learned.data)
    assert aiayn("attention", "--positions", *model, "--output", path) == (0, f"{path}\n", "")
    assert {"sinusoids: encoding", "learned, encoder: encoding"} < set(written(path))


def test_what_moses_escapes_is_shown_as_it_was_written(small):
    for pieces, shown in (("byte_pairs", "'s"), ("none", "&apos;s")):
        translator = Translator(small.read(pieces))
        assert shown_pieces(translator, ["&apos;s"]) == (shown,)

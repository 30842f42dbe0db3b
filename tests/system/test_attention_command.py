"""`aiayn attention` as a user runs it, on small models over the invented language."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch
from checkpoint_states import save as save_state
from checkpoint_states import state_of
from fairseq import options
from fairseq_cli import preprocess
from fairseq_commands import PLUGIN, SMALL
from sentencepiece import SentencePieceTrainer

from fairseq_aiayn.attention_maps.weights import all_attention_weights
from fairseq_aiayn.corpus.subwords import sentence_pieces
from fairseq_aiayn.inference.attention import attention_maps, source_sentence, target_sentence
from fairseq_aiayn.inference.engine import Translator
from fairseq_aiayn.inference.export import of_checkpoint
from fairseq_aiayn.inference.folder import BYTE_PAIRS, NONE, TextProcessing
from fairseq_aiayn.plugin.translation import AiaynTranslationConfig, AiaynTranslationTask

SOURCE, TARGET = "w3 w5 w4", "v3 v5 v5 v4"
SHARED = ("--task", "translation", "--arch", "transformer", "--share-all-embeddings")
STOCK = (*SHARED, "--encoder-layers", "1", "--decoder-layers", "1")

Aiayn = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def save_model(data_bin: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Write a checkpoint of an untrained model, in the form of fairseq-train."""
    folder = tmp_path_factory.mktemp("models")

    def save(name: str, *flags: str, data: Path = data_bin) -> Path:
        command = [str(data), *PLUGIN, *flags]
        args = options.parse_args_and_arch(options.get_training_parser(), command)
        task = AiaynTranslationTask.setup_task(AiaynTranslationConfig(data=str(data)))
        torch.manual_seed(1)
        model = task.build_model(args)
        return save_state(folder / name, state_of(model.state_dict(), args=args))

    return save


@pytest.fixture(scope="module")
def checkpoint(save_model: Callable[..., Path]) -> Path:
    """A model with three layers of two heads."""
    return save_model("model.pt", *SMALL, "--encoder-layers", "3", "--decoder-layers", "3")


@pytest.fixture(scope="module")
def word_pieces(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A sentencepiece model, and binarized text that was cut with it."""
    folder = tmp_path_factory.mktemp("pieces")
    sentences = ["the snowplough goes on", "snow goes on the plough", "the other plough"] * 9
    SentencePieceTrainer.train(
        sentence_iterator=iter(sentences),
        model_prefix=str(folder / "pieces"),
        model_type="bpe",
        vocab_size=34,
        minloglevel=2,
    )
    cut = sentence_pieces(folder / "pieces.model")
    for language in ("en", "de"):
        text = "".join(f"{cut(sentence)}\n" for sentence in sentences)
        (folder / f"train.{language}").write_text(text, encoding="utf-8")
    arguments = ["-s", "en", "-t", "de", "--trainpref", str(folder / "train")]
    arguments += ["--joined-dictionary", "--destdir", str(folder / "bin")]
    preprocess.main(options.get_preprocessing_parser().parse_args(arguments))
    return folder / "pieces.model", folder / "bin"


@pytest.fixture
def given(checkpoint: Path, data_bin: Path) -> tuple[str | Path, ...]:
    return ("--checkpoint", checkpoint, "--data-bin", data_bin)


def written(path: Path) -> list[str]:
    """The text of an SVG file."""
    root = ElementTree.parse(path).getroot()
    return [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]


def kinds(path: Path) -> list[str]:
    """The kinds of the maps in a page."""
    return re.findall(r'"kind":\s*"(\w+)"', path.read_text(encoding="utf-8"))


def test_a_picture_of_each_kind(aiayn, given, tmp_path):
    """Without --target, the model translates if the kind needs it, and prints the translation."""
    path = tmp_path / "picture.svg"
    assert aiayn("attention", *given, "--source", SOURCE, "--output", path) == (0, f"{path}\n", "")
    assert "Encoder self-attention, layer 2 of 3" in written(path)
    assert {"w3", "w5", "w4", "</s>"} < set(written(path)) and "<s>" not in written(path)
    for kind in ("decoder", "cross"):
        status, out, err = aiayn(
            "attention", *given, "--source", SOURCE, "--kind", kind, "--output", path
        )
        translation = out.split("\n")[0].removeprefix("translation: ").split()
        assert (status, err) == (0, "") and set(translation) < set(written(path))
        assert ("<s>" in written(path)) == (kind == "decoder")
    more = ("--target", TARGET, "--kind", "cross", "--layer", "3", "--heads", "2", "--word", "v5")
    assert aiayn("attention", *given, "--source", SOURCE, *more, "--output", path) == (
        0,
        f"{path}\n",
        "",
    )
    assert "Encoder-decoder attention, layer 3 of 3" in written(path)
    assert written(path).count("v5") == 2 and written(path).count("w5") == 1
    for suffix, start in ((".png", b"\x89PNG"), (".pdf", b"%PDF")):
        assert (
            aiayn("attention", *given, "--source", SOURCE, "--output", path.with_suffix(suffix))[0]
            == 0
        )
        assert path.with_suffix(suffix).read_bytes().startswith(start)


def test_the_page_has_all_kinds_or_the_one_that_was_asked_for(aiayn, given, tmp_path):
    path = tmp_path / "page.html"
    status, out, err = aiayn(
        "attention", *given, "--source", SOURCE, "--target", TARGET, "--output", path
    )
    assert (status, out, err) == (0, f"{path}\n", "")
    assert kinds(path) == ["encoder", "decoder", "cross"]
    assert aiayn("attention", *given, "--source", SOURCE, "--kind", "encoder", "--output", path)[
        1:
    ] == (
        f"{path}\n",
        "",
    )
    assert kinds(path) == ["encoder"]


def test_a_page_opens_with_the_kind_that_has_the_word(aiayn, given, tmp_path):
    """A word of the target is not in the encoder's map."""
    page = tmp_path / "page.html"
    arguments = ("--source", SOURCE, "--target", "v3 v9 v4", "--output", page)
    assert aiayn("attention", *given, *arguments, "--word", "v9", "--layer", "1")[0] == 0
    (view,) = re.findall(r'"start": "([^"]*)"', page.read_text(encoding="utf-8"))
    assert "kind=decoder&layer=1" in view and view.endswith("query=2")
    status, _, error = aiayn("attention", *given, *arguments, "--word", "w99")
    assert status == 2 and "'w99' is none of the words to choose from: v3 v9 v4 </s>" in error


def test_maps_are_named_by_what_is_written_and_what_is_read(checkpoint, data_bin):
    """Breaks if the target is not shifted, or if a row has the label of the token read there."""
    translator = Translator(of_checkpoint(checkpoint, data_bin, TextProcessing(NONE), None))
    source, target = source_sentence(translator, SOURCE), target_sentence(translator, TARGET)
    maps = attention_maps(translator, source, target)
    assert {kind: (shown.queries, shown.keys) for kind, shown in maps.items()} == {
        "encoder": (("w3", "w5", "w4", "</s>"),) * 2,
        "decoder": (("v3", "v5", "v5", "v4", "</s>"), ("<s>", "v3", "v5", "v5", "v4")),
        "cross": (("v3", "v5", "v5", "v4", "</s>"), ("w3", "w5", "w4", "</s>")),
    }
    number = translator.target.number
    read = torch.tensor([number[word] for word in ("</s>", "v3", "v5", "v5", "v4")])
    expected = all_attention_weights(translator.transformer, torch.tensor(source.numbers), read)
    for kind, shown in maps.items():
        assert torch.equal(shown.weights, expected[kind])
    assert list(attention_maps(translator, source, None)) == ["encoder"]


def test_a_piece_that_the_dictionary_lacks_is_named_and_drawn(aiayn, given, tmp_path):
    path = tmp_path / "picture.svg"
    hostile = "</script><script>alert(1)</script>"
    status, out, err = aiayn(
        "attention", *given, "--source", f"w3 שלום {hostile} w3", "--output", path
    )
    assert (status, out) == (0, f"{path}\n")
    assert err == (
        "aiayn attention: 'שלום' is not in the dictionary, the model reads <unk>\n"
        f"aiayn attention: {hostile!r} is not in the dictionary, the model reads <unk>\n"
    )
    assert "שלום" in written(path) and "<script" not in path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--output x.gif", "--output must end in"),
        ("--output x.png", "--source must be given"),
        ("--source w3 --output nowhere/x.png", "there is no directory nowhere"),
        ("--source \u2028 --output x.png", "a sentence with words, got none"),
        ("--source w3 --target \u2028 --output x.png", "a sentence with words, got none"),
        ("--source w3 --layer 4 --output x.png", "the layer must be 1 to 3, got 4"),
        ("--source w3 --kind encoder --heads 3 --output x.html", "a head must be 1 to 2, got 3"),
        ("--source w3 --word w6 --output x.png", "'w6' is none of the words"),
        ("--source w3 --style heat --output x.png", "--style heat is on a page"),
        ("--source w3 --normalize --output x.png", "--normalize: goes with --bpe-codes"),
        ("--positions --source w3 --output x.png", "--positions does not go with --source"),
        ("--positions --output x.html", "--positions is a picture"),
        ("--bpe-codes nowhere --source a --output x.png", "nowhere: No such file"),
    ],
)
def test_bad_input_is_one_line(arguments, message, refused, given, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert message in refused("attention", *given, *arguments.split(" "))
    assert not list(tmp_path.iterdir())


def test_a_file_that_cannot_be_used_is_named(refused, save_model, given, data_bin, tmp_path):
    stock, broken = save_model("stock.pt", *STOCK), tmp_path / "broken"
    broken.write_text("#version: 0.2\na b c d\n", encoding="utf-8")
    more = ("--source", SOURCE, "--output", tmp_path / "x.png")
    for path in (stock, broken, tmp_path / "none.pt"):
        line = refused("attention", "--checkpoint", path, "--data-bin", data_bin, *more)
        assert line.startswith(f"aiayn attention: {path}: ")
    for option in ("--bpe-codes", "--sentencepiece-model"):
        line = refused("attention", *given, option, broken, *more)
        assert line.startswith(f"aiayn attention: {broken}: ")


def test_positions_of_the_paper_and_of_a_model(aiayn, refused, save_model, data_bin, tmp_path):
    path = tmp_path / "positions.svg"
    assert aiayn("attention", "--positions", "--output", path) == (0, f"{path}\n", "")
    assert "learned, encoder: encoding" not in written(path)
    learned = save_model("learned.pt", *SMALL, "--learned-positions")
    model = ("--checkpoint", learned, "--data-bin", data_bin)
    assert aiayn("attention", "--positions", *model, "--output", path) == (0, f"{path}\n", "")
    assert {"sinusoids: encoding", "learned, encoder: encoding"} < set(written(path))
    line = refused("attention", "--positions", "--checkpoint", learned, "--output", path)
    message = "--data-bin must be given with --checkpoint: it has the dictionaries"
    assert line == f"aiayn attention: {message}"


def test_what_moses_escapes_is_shown_as_it_was_written(checkpoint, data_bin, tmp_path):
    codes = tmp_path / "codes"
    codes.write_text("#version: 0.2\nd o\n", encoding="utf-8")
    for text, shown in ((TextProcessing(BYTE_PAIRS), "'s"), (TextProcessing(NONE), "&apos;s")):
        translator = Translator(of_checkpoint(checkpoint, data_bin, text, codes))
        translator.cut_source = str.split
        assert source_sentence(translator, "&apos;s").pieces == (shown, "</s>")


@pytest.mark.parametrize("given_as", ["text", "pieces"])
def test_word_pieces_are_merged_to_words(
    given_as, word_pieces, save_model, aiayn, refused, tmp_path
):
    """Weights are those of whole words, and a word can be chosen whatever its pieces are."""
    model, data = word_pieces
    checkpoint = save_model(f"{given_as}.pt", *SMALL, data=data)
    text = "the snowplough goes on"
    pieces = sentence_pieces(model)(text)
    assert len(pieces.split()) > len(text.split())
    cut = ("--sentencepiece-model", model, "--source", text)
    cut = cut if given_as == "text" else ("--source", pieces)
    path, both = tmp_path / "words.svg", ("--checkpoint", checkpoint, "--data-bin", data)
    drawn = aiayn("attention", *both, *cut, "--merge", "--word", "snowplough", "--output", path)
    assert drawn == (0, f"{path}\n", "")
    assert [written(path).count(word) for word in (*text.split(), "</s>")] == [2] * 5
    message = "'other' is none of the words to choose from: the snowplough goes on </s>"
    line = refused("attention", *both, *cut, "--word", "other", "--output", path)
    assert line == f"aiayn attention: {message}"

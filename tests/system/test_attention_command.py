"""`aiayn attention` as a user runs it, on small models over the invented language."""

from __future__ import annotations

import re
import subprocess
import sys
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

from fairseq_aiayn.cli import main as cli
from fairseq_aiayn.inspection.attention_weights import all_attention_weights
from fairseq_aiayn.plugin.attention import Segmenter, load_translator
from fairseq_aiayn.plugin.task import AiaynTranslationConfig, AiaynTranslationTask

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
    segmenter = Segmenter(model=folder / "pieces.model")
    for language in ("en", "de"):
        text = "".join(segmenter.cut(sentence, language) + "\n" for sentence in sentences)
        (folder / f"train.{language}").write_text(text, encoding="utf-8")
    arguments = ["-s", "en", "-t", "de", "--trainpref", str(folder / "train")]
    arguments += ["--joined-dictionary", "--destdir", str(folder / "bin")]
    preprocess.main(options.get_preprocessing_parser().parse_args(arguments))
    return folder / "pieces.model", folder / "bin"


@pytest.fixture
def aiayn(capfd: pytest.CaptureFixture[str]) -> Aiayn:
    """Run `aiayn attention`; return its exit status and everything that it prints."""

    def run(*arguments: str | Path) -> tuple[int, str, str]:
        capfd.readouterr()
        status = cli.main(["attention", *map(str, arguments)])
        return (status, *capfd.readouterr())

    return run


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


def test_a_picture_of_each_kind_and_style(aiayn, given, tmp_path):
    """Without --target, the model translates if the kind needs it, and prints the translation."""
    path = tmp_path / "picture.svg"
    for style in ("lines", "heads", "heat"):
        drawn = aiayn(*given, "--source", SOURCE, "--style", style, "--output", path)
        assert drawn == (0, f"{path}\n", "")
        assert "Encoder self-attention, layer 2 of 3" in written(path)
        assert {"w3", "w5", "w4", "</s>"} < set(written(path)) and "<s>" not in written(path)
    for kind in ("decoder", "cross"):
        status, out, err = aiayn(*given, "--source", SOURCE, "--kind", kind, "--output", path)
        translation = out.split("\n")[0].removeprefix("translation: ").split()
        assert (status, err) == (0, "") and set(translation) < set(written(path))
        assert ("<s>" in written(path)) == (kind == "decoder")
    more = ("--target", TARGET, "--kind", "cross", "--layer", "3", "--heads", "2", "--word", "v5")
    assert aiayn(*given, "--source", SOURCE, *more, "--output", path) == (0, f"{path}\n", "")
    assert "Encoder-decoder attention, layer 3 of 3" in written(path)
    assert written(path).count("v5") == 2 and written(path).count("w5") == 1
    for suffix, start in ((".png", b"\x89PNG"), (".pdf", b"%PDF")):
        assert aiayn(*given, "--source", SOURCE, "--output", path.with_suffix(suffix))[0] == 0
        assert path.with_suffix(suffix).read_bytes().startswith(start)


def test_the_page_has_all_kinds_or_the_one_that_was_asked_for(aiayn, given, tmp_path):
    path = tmp_path / "page.html"
    status, out, err = aiayn(*given, "--source", SOURCE, "--target", TARGET, "--output", path)
    assert (status, out, err) == (0, f"{path}\n", "")
    assert kinds(path) == ["encoder", "decoder", "cross"]
    assert aiayn(*given, "--source", SOURCE, "--kind", "encoder", "--output", path)[1:] == (
        f"{path}\n",
        "",
    )
    assert kinds(path) == ["encoder"]


def test_a_page_opens_with_the_kind_that_has_the_word(aiayn, given, tmp_path):
    """A word of the target is not in the encoder's map."""
    page = tmp_path / "page.html"
    arguments = ("--source", SOURCE, "--target", "v3 v9 v4", "--output", page)
    assert aiayn(*given, *arguments, "--word", "v9", "--layer", "1")[0] == 0
    (view,) = re.findall(r'"start": "([^"]*)"', page.read_text(encoding="utf-8"))
    assert "kind=decoder&layer=1" in view and view.endswith("query=2")
    status, _, error = aiayn(*given, *arguments, "--word", "w99")
    assert status == 2 and "'w99' is none of the words to choose from: v3 v9 v4 </s>" in error


def test_maps_are_named_by_what_is_written_and_what_is_read(checkpoint, data_bin):
    """Breaks if the target is not shifted, or if a row has the label of the token read there."""
    translator = load_translator(checkpoint, data_bin, Segmenter())
    source, target = translator.source(SOURCE), translator.target(TARGET)
    maps = translator.maps(source, target)
    assert {kind: (shown.queries, shown.keys) for kind, shown in maps.items()} == {
        "encoder": (("w3", "w5", "w4", "</s>"),) * 2,
        "decoder": (("v3", "v5", "v5", "v4", "</s>"), ("<s>", "v3", "v5", "v5", "v4")),
        "cross": (("v3", "v5", "v5", "v4", "</s>"), ("w3", "w5", "w4", "</s>")),
    }
    dictionary = translator.task.target_dictionary
    read = torch.tensor([dictionary.index(word) for word in ("</s>", "v3", "v5", "v5", "v4")])
    expected = all_attention_weights(translator.model, source.tokens, read)
    for kind, shown in maps.items():
        assert torch.equal(shown.weights, expected[kind])
    assert list(translator.maps(source, None)) == ["encoder"]


def test_the_models_transformer_is_the_model_itself(checkpoint, data_bin):
    translator = load_translator(checkpoint, data_bin, Segmenter())
    source, target = translator.source(SOURCE).tokens[None], translator.target(TARGET).tokens[None]
    translator.model.eval()
    logits, _ = translator.model(source, None, target)
    assert torch.equal(translator.model.transformer(source, target), logits)
    parameters = {id(p) for p in translator.model.parameters()}
    assert {id(p) for p in translator.model.transformer.parameters()} == parameters


def test_a_piece_that_the_dictionary_lacks_is_named_and_drawn(aiayn, given, tmp_path):
    path = tmp_path / "picture.svg"
    hostile = "</script><script>alert(1)</script>"
    status, out, err = aiayn(*given, "--source", f"w3 שלום {hostile} w3", "--output", path)
    assert (status, out) == (0, f"{path}\n")
    assert err == (
        "aiayn attention: 'שלום' is not in the dictionary, the model reads <unk>\n"
        f"aiayn attention: {hostile!r} is not in the dictionary, the model reads <unk>\n"
    )
    assert "שלום" in written(path) and "<script" not in path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--output", "x.gif"), "--output must end in .png, .svg, .pdf or .html, got x.gif"),
        (
            ("--source", " \u2028", "--output", "x.png"),
            "the source must have words, got ' \\u2028'",
        ),
        (
            ("--source", SOURCE, "--target", "", "--output", "x.png"),
            "the target must have words, got ''",
        ),
        (
            ("--source", SOURCE, "--layer", "4", "--output", "x.png"),
            "the layer must be 1 to 3, got 4",
        ),
        (
            ("--source", SOURCE, "--heads", "1,3", "--output", "x.png"),
            "a head must be 1 to 2, got 3",
        ),
        (
            ("--source", SOURCE, "--word", "w6", "--output", "x.png"),
            "'w6' is none of the words to choose from: w3 w5 w4 </s>",
        ),
        (
            ("--source", "w3 " * 500, "--output", "x.png"),
            "a picture shows at most 120 words or pieces a side, got 501",
        ),
        (("--output", "x.png"), "--source must be given"),
        (
            ("--source", SOURCE, "--normalize", "--output", "x.png"),
            "--normalize goes with --bpe-codes",
        ),
        (
            ("--source", SOURCE, "--kind", "encoder", "--heads", "3", "--output", "x.html"),
            "a head must be 1 to 2, got 3",
        ),
        (
            ("--positions", "--source", SOURCE, "--output", "x.png"),
            "--positions does not go with --source",
        ),
        (
            ("--positions", "--output", "x.html"),
            "--positions is a picture: --output must not end in .html",
        ),
        (
            ("--source", SOURCE, "--output", "nowhere/x.png"),
            "--output nowhere/x.png: there is no directory nowhere",
        ),
        (("--bpe-codes", "nowhere", "--source", "a", "--output", "x.png"), "nowhere: No such file"),
    ],
)
def test_bad_input_is_one_line(arguments, message, refused, given, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert refused(*given, *arguments).startswith(f"aiayn attention: {message}")
    assert not list(tmp_path.iterdir())


def test_a_checkpoint_that_cannot_be_used_is_named(refused, save_model, data_bin, tmp_path):
    stock = save_model("stock.pt", *STOCK)
    broken = tmp_path / "broken.pt"
    broken.write_text("x")
    expected = {
        stock: f"{stock}: must be a checkpoint of an aiayn_* model, has a TransformerModel",
        broken: f"{broken}: truncated, or not a PyTorch checkpoint",
        tmp_path / "none.pt": f"Model file not found: {tmp_path / 'none.pt'}",
    }
    more = ("--source", SOURCE, "--output", tmp_path / "x.png")
    for path, message in expected.items():
        line = refused("--checkpoint", path, "--data-bin", data_bin, *more)
        assert line == f"aiayn attention: {message}"
    line = refused("--checkpoint", stock, "--data-bin", tmp_path, *more)
    assert line.startswith("aiayn attention: Could not infer language pair")


def test_positions_of_the_paper_and_of_a_model(aiayn, refused, save_model, data_bin, tmp_path):
    path = tmp_path / "positions.svg"
    assert aiayn("--positions", "--output", path) == (0, f"{path}\n", "")
    assert "learned, encoder: encoding" not in written(path)
    learned = save_model("learned.pt", *SMALL, "--learned-positions")
    model = ("--checkpoint", learned, "--data-bin", data_bin)
    assert aiayn("--positions", *model, "--output", path) == (0, f"{path}\n", "")
    assert {"sinusoids: encoding", "learned, encoder: encoding"} < set(written(path))
    line = refused("--positions", "--checkpoint", learned, "--output", path)
    assert line == "aiayn attention: --data-bin must be given"


def test_text_is_cut_as_the_recipes_cut_it(tmp_path):
    """Moses tokens of either language in byte pairs, or word pieces, like the training text."""
    text = "„Gut-gemeint“,  don't say: 3.5\u00a0% of it's\u2028rosy-red\u200b!"
    codes = tmp_path / "codes"
    codes.write_text("#version: 0.2\ng u\nd o\nr o\ns a\n", encoding="utf-8")
    corpus = "fairseq_aiayn.corpus"
    for language in ("en", "de"):
        for flags in ((), ("--normalize",)):
            command = [sys.executable, "-m", f"{corpus}.moses", "--language", language, *flags]
            tokens = subprocess.run(
                command, input=f"{text}\n".encode(), check=True, capture_output=True
            ).stdout
            command = [sys.executable, "-m", f"{corpus}.pieces", "--codes", codes]
            pieces = subprocess.run(command, input=tokens, check=True, capture_output=True).stdout
            found = Segmenter(codes=codes, normalize=bool(flags)).cut(text, language)
            assert found.split() == pieces.decode().split() and "@@" in found
    assert Segmenter().cut(text, "en") == text


def test_what_moses_escapes_is_shown_as_it_was_written(tmp_path):
    codes = tmp_path / "codes"
    codes.write_text("#version: 0.2\n", encoding="utf-8")
    segmenter = Segmenter(codes=codes)
    assert segmenter.shown("&apos;s") == "'s" and segmenter.shown("&#91;") == "["
    assert Segmenter().shown("&apos;s") == "&apos;s"


@pytest.mark.parametrize("given_as", ["text", "pieces"])
def test_word_pieces_are_merged_to_words(
    given_as, word_pieces, save_model, aiayn, refused, tmp_path
):
    """Weights are those of whole words, and a word can be chosen whatever its pieces are."""
    model, data = word_pieces
    checkpoint = save_model(f"{given_as}.pt", *SMALL, data=data)
    text = "the snowplough goes on"
    pieces = Segmenter(model=model).cut(text, "en")
    assert len(pieces.split()) > len(text.split())
    cut = ("--sentencepiece-model", model, "--source", text)
    cut = cut if given_as == "text" else ("--source", pieces)
    path, both = tmp_path / "words.svg", ("--checkpoint", checkpoint, "--data-bin", data)
    drawn = aiayn(*both, *cut, "--merge", "--word", "snowplough", "--output", path)
    assert drawn == (0, f"{path}\n", "")
    assert [written(path).count(word) for word in (*text.split(), "</s>")] == [2] * 5
    message = "'other' is none of the words to choose from: the snowplough goes on </s>"
    line = refused(*both, *cut, "--word", "other", "--output", path)
    assert line == f"aiayn attention: {message}"


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--bpe-codes", "must be codes of subword-nmt learn-bpe, is not"),
        ("--sentencepiece-model", "must be a sentencepiece model, is not"),
    ],
)
def test_a_file_that_cuts_nothing_is_named(option, message, refused, given, tmp_path):
    (tmp_path / "broken").write_text("#version: 0.2\na b c d\n", encoding="utf-8")
    broken = (option, tmp_path / "broken")
    line = refused(*given, *broken, "--source", SOURCE, "--output", tmp_path / "x.png")
    assert line == f"aiayn attention: {tmp_path / 'broken'}: {message}"

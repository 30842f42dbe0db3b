"""aiayn translate, parse and export: what goes in and out, which engine, which options go
together."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from small_models import KINDS, SENTENCES, small_model

from fairseq_aiayn import load
from fairseq_aiayn.cli import sentences
from fairseq_aiayn.inference import ctranslate2, ctranslate2_writer
from fairseq_aiayn.inference.folder import read_folder

Aiayn = Callable[..., tuple[int, str, str]]
Give = Callable[..., None]
Refused = Callable[..., str]
LINES = ["", *SENTENCES, "", "the cat saw"]
TEXT = "".join(f"{line}\n" for line in LINES)


@pytest.fixture
def training(tmp_path: Path) -> Path:
    """What a recipe leaves: the data with a note of its text, and a run."""
    small = small_model(tmp_path / "exp")
    run = tmp_path / "exp" / "tiny-1"
    run.mkdir()
    small.checkpoint.rename(run / "average.pt")
    small.codes.rename(small.data / "codes")
    note = {"pieces": "byte_pairs", "normalize": False, "lowercase": True}
    (small.data / "text.json").write_text(json.dumps(note))
    search = f"fairseq-generate {small.data} --path {run}/average.pt"
    settings = {"system": "aiayn", "corpus": "invented", "commands": {"generate": search}}
    (run / "settings.json").write_text(json.dumps(settings))
    return tmp_path / "exp"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's cache of conversions, empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "fairseq_aiayn" / "ctranslate2"


@pytest.fixture
def translate(aiayn: Aiayn, give: Give) -> Aiayn:
    """Return a function that translates TEXT on a CPU."""

    def run(*words: object) -> tuple[int, str, str]:
        give(TEXT)
        return aiayn("translate", *words, "--cpu")

    return run


def test_translations_are_the_apis_in_order(folder: Path, aiayn: Aiayn, give: Give) -> None:
    expected = load(folder, "cpu").search(LINES, beam=3, alpha=0.2, nbest=3)
    options = ("--cpu", "--beam", 3, "--alpha", 0.2)
    give(b"\xef\xbb\xbf" + TEXT.encode())  # a byte order mark is no word
    status, out, _ = aiayn("translate", folder, *options, "--threads", 1, "--batch-tokens", 9)
    assert (status, out.split("\n")) == (0, [*(best.text for best, *_ in expected), ""])
    give(TEXT)
    _, out, _ = aiayn("translate", folder, *options, "--nbest", 3, "--scores")
    found = [line.split("\t") for line in out.splitlines()]
    lines = [
        (output.score, output.log_p, output.text) for outputs in expected for output in outputs
    ]
    for empty in (0, len(SENTENCES) + 1):  # three lines for every sentence, an empty one too
        assert found[3 * empty + 1 : 3 * empty + 3] == [[""], [""]]
    found = [line for line in found if line != [""]]
    assert [line[2] for line in found] == [text for *_, text in lines]
    for column in (0, 1):
        numbers = [float(line[column]) for line in found]
        assert numbers == pytest.approx([line[column] for line in lines], abs=1e-4)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "parser"])
def test_both_engines_write_the_same(
    kind: str, tmp_path: Path, cache: Path, translate: Aiayn
) -> None:
    folder = small_model(tmp_path / "exp", kind).export(tmp_path / "folder")
    ours = translate(folder, "--engine", "aiayn")
    for other in (("--beam", 3), ("--beam", 22), ("--alpha", 2), ("--precision", "bfloat16")):
        assert translate(folder, *other)[0] == 0
    assert translate(folder, "--nbest", 2)[1].splitlines()[::2] == ours[1].splitlines()
    assert not cache.exists()
    assert ours[0] == 0 and translate(folder) == ours
    assert len([*cache.iterdir()]) == 1


def test_a_model_is_converted_once_and_again_when_it_changes(
    folder: Path, training: Path, cache: Path, translate: Aiayn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Breaks if a conversion of other weights, of another search or text, in int8, or by other code
    is used."""
    copy, run = shutil.copytree(folder, training / "folder"), training / "tiny-1"
    other = small_model(training / "other", seed=2)
    other_folder = other.export(training / "other-folder")
    config = (copy / "config.json").read_text().replace('"extra_length": 50', '"extra_length": 3')
    checkpoint = ("--checkpoint", other.checkpoint, "--data-bin", training / "bin")
    other_code = training / "code"
    (other_code / "nn").mkdir(parents=True)
    (other_code / "nn" / "attention.py").touch()
    steps: tuple[tuple[tuple, Callable, int], ...] = (
        ((copy,), lambda: None, 1),
        ((copy,), lambda: shutil.copy(other_folder / "model.safetensors", copy), 1),
        ((copy,), lambda: (copy / "config.json").write_text(config), 1),
        ((copy, "--engine", "ctranslate2", "--quantization", "int8"), lambda: None, 1),
        ((copy,), lambda: monkeypatch.setattr(ctranslate2, "PACKAGE", other_code), 1),
        ((run,), lambda: None, 1),
        ((run,), lambda: shutil.copy(other.checkpoint, run / "average.pt"), 1),
        (checkpoint, lambda: None, 0),  # the same as that of the run
        ((*checkpoint, "--bpe-codes", training / "bin/codes"), lambda: None, 1),  # with capitals
    )
    for words, change, conversions in steps:
        change()
        before = [*cache.glob("*")]
        outputs = [translate(*words)]
        assert len([*cache.iterdir()]) == len(before) + conversions
        with monkeypatch.context() as patch:
            patch.setattr(sentences, "read_model", str)  # which is no model
            outputs.append(translate(*words))
        if "int8" not in words:
            outputs.append(translate(*words, "--engine", "aiayn"))
        assert outputs == [outputs[0]] * len(outputs) and outputs[0][0] == 0


def test_without_ctranslate2_or_a_usable_cache_our_own_search_translates(
    folder: Path, cache: Path, translate: Aiayn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What another command has just written is usable."""

    def write_twice(*arguments: object) -> None:
        write(*arguments)
        write(*arguments)

    write = ctranslate2_writer.write_ctranslate2
    with monkeypatch.context() as patch:
        patch.setattr(ctranslate2_writer, "write_ctranslate2", write_twice)
        expected = translate(folder)
    assert expected == translate(folder, "--engine", "aiayn")
    (conversion,) = cache.iterdir()
    (conversion / "model.bin").write_bytes(b"")
    for home in (cache.parents[1], folder / "config.json"):
        monkeypatch.setenv("XDG_CACHE_HOME", str(home))
        status, out, err = translate(folder)
        assert (status, out) == expected[:2]
        assert err.startswith("aiayn translate: CTranslate2 is not used: ") and err.count("\n") == 1
        status, out, err = translate(folder, "--engine", "ctranslate2")
        assert (status, out) == (2, "") and str(home) in err
    monkeypatch.setitem(sys.modules, "ctranslate2", None)  # it is not installed
    monkeypatch.delitem(sys.modules, "fairseq_aiayn.inference.ctranslate2")
    assert translate(folder) == expected
    assert "'fairseq-aiayn[ctranslate2]'" in translate(folder, "--engine", "ctranslate2")[2]


def test_a_converted_model_needs_neither_torch_nor_fairseq(folder: Path, translate: Aiayn) -> None:
    expected = translate(folder)
    program = (
        "import sys; from fairseq_aiayn.cli.main import main; main(sys.argv[1:]);"
        "print({'torch', 'fairseq', 'omegaconf'} & set(sys.modules))"
    )
    command = [sys.executable, "-c", program, "translate", str(folder), "--cpu"]
    printed = subprocess.check_output(command, input=TEXT, text=True)
    assert printed == f"{expected[1]}set()\n"


@pytest.mark.parametrize("bad", [b"caf\xe9", b"the " * 1025])
def test_an_invalid_line_comes_after_what_is_done_or_is_skipped(
    bad: bytes, folder: Path, aiayn: Aiayn, give: Give
) -> None:
    good = [line.encode() for line in LINES]
    expected = load(folder, "cpu").translate(LINES)
    text = b"\n".join([*good[:2], bad, *good[2:], bad])
    give(text)
    status, out, err = aiayn("translate", folder, "--cpu")
    assert (status, out.splitlines()) == (2, expected[:2])
    assert err.startswith("aiayn translate: standard input:3: ") and err.count("\n") == 1
    give(text)
    status, out, err = aiayn("translate", folder, "--cpu", "--skip-invalid")
    assert (status, out.split("\n")) == (0, [*expected[:2], "", *expected[2:], "", ""])
    last = len(LINES) + 2
    assert "standard input:3: " in err and f"standard input:{last}: " in err and "2 invalid" in err


def test_a_sentence_that_cannot_be_a_tree_is_named_or_skipped(
    parser_folder: Path, aiayn: Aiayn, give: Give
) -> None:
    options = ("--model", parser_folder, "--cpu", "--tokenized", "--beam", 1)
    sentences = ["the cat", "", "a (b c", "the cat"]
    tree = aiayn("parse", *options, "the cat")[1]
    status, out, err = aiayn("parse", *options, *sentences)
    assert (status, out) == (2, f"{tree}\n")
    assert err.startswith("aiayn parse: sentence 3: a word") and "'(b'" in err
    sentences.append("caf\udce9")  # how Python gives an argument that is not UTF-8
    skipped = aiayn("parse", *options, "--skip-invalid", *sentences)
    assert skipped[:2] == (0, f"{tree}\n\n{tree}\n") and "sentence 5: 'utf-8'" in skipped[2]
    give("\n".join(sentences[:3]))
    assert aiayn("parse", *options)[2].startswith("aiayn parse: standard input:3: a word")


def test_a_terminal_is_asked_again_after_an_invalid_line(
    folder: Path, parser_folder: Path, aiayn: Aiayn, give: Give, monkeypatch: pytest.MonkeyPatch
) -> None:
    give(b"caf\xe9\n" + b"x " * 1025 + b"\n\nthe cat\n", terminal=True)
    status, out, err = aiayn("translate", folder, "--scores", "--beam", 1, "--cpu")
    empty, translation = out.splitlines()
    assert (status, empty) == (0, "0.0000\t0.0000\t") and float(translation.split("\t")[1]) < 0
    assert "0xe9" in err and "at most 1,024" in err
    monkeypatch.setitem(sys.modules, "readline", None)  # a Python may have been built without it
    give("a (b c\n\nthe cat\n", terminal=True)
    status, out, err = aiayn("parse", "--model", parser_folder, "--tokenized", "--beam", 1, "--cpu")
    assert (status, out.split("\n")[0], out.count("\n")) == (0, "", 2)
    assert "'(b'" in err


def test_a_folder_a_run_and_a_checkpoint_are_the_same_model(
    training: Path, aiayn: Aiayn, translate: Aiayn
) -> None:
    root, run, data = training, training / "tiny-1", training / "bin"
    checkpoint = ("--checkpoint", run / "average.pt", "--data-bin", data)
    cut = ("--bpe-codes", data / "codes", "--lowercase")
    card = ("--licence", "CC0", "--scores", "BLEU 1")
    back = ("--to", "fairseq", "--output", root / "again.pt")
    for words in (
        (*checkpoint, *cut, *card, "--output", root / "one"),
        (run, "--output", root / "two"),
        (*checkpoint, "--output", root / "noted"),
        (root / "one", *back),
        (root / "one", "--to", "ctranslate2", "--output", root / "three"),
    ):
        assert aiayn("export", *words) == (0, "", "")
    one, two, noted = (read_folder(root / name).config for name in ("one", "two", "noted"))
    assert one.told == {"licence": "CC0", "scores": "BLEU 1"} and two.told == {"data": "invented"}
    assert "CC0" in (root / "one" / "README.md").read_text() and noted.text == two.text
    again = ("--checkpoint", root / "again.pt", "--data-bin", data, *cut)
    models = ((root / "one",), (root / "two",), (run,), (*checkpoint, *cut), again)
    outputs = [translate(*model, "--engine", "aiayn") for model in models]
    assert [translate(root / "three"), *outputs] == [outputs[0]] * 6 and outputs[0][0] == 0
    (root / "three" / "codes").write_text("#version: 0.2\n")
    assert f"{root}/three/codes: changed" in translate(root / "three")[2]
    (data / "text.json").unlink()
    status, _, err = aiayn("export", *checkpoint, "--output", root / "uncut")
    assert status == 0 and "nothing says how the text was cut" in err


@pytest.mark.parametrize("task", ["translation", "parsing"])
def test_the_card_has_a_command_that_works(
    task: str, folder: Path, parser_folder: Path, aiayn: Aiayn, give: Give
) -> None:
    model = folder if task == "translation" else parser_folder
    words = re.search(r"(?m)^    aiayn (.*) < text$", (model / "README.md").read_text())[1]
    give("the cat\n")
    status, output, _ = aiayn(*words.replace("THIS_FOLDER", str(model)).split(), "--cpu")
    assert (status, output.count("\n")) == (0, 1)


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        ("translate", "a run directory, a model folder or --checkpoint must be given"),
        ("translate PARSER", "PARSER: expected a translation model, got a parser"),
        ("parse --model FOLDER x", "FOLDER: expected a parser"),
        ("translate FOLDER --threads 0", "--threads must be at least 1"),
        ("translate FOLDER --quantization int8", "--quantization: goes with --engine ctranslate2"),
        ("translate FOLDER --engine ctranslate2 --precision bfloat16", "--precision: goes with"),
        ("parse --checkpoint ROOT/bin x", "--checkpoint: goes with --data-bin"),
        ("export FOLDER --to fairseq --output ROOT", "must not exist yet"),
        ("export FOLDER --to ctranslate2 --licence MIT --output OUT", "--to folder or marian"),
        ("export ROOT --lowercase --output OUT", "--lowercase: goes with --checkpoint"),
        ("export --checkpoint c --data-bin b --normalize --output OUT", "goes with --bpe-codes"),
        ("export ROOT --checkpoint c --data-bin b --output OUT", "must be given, only one"),
    ],
)
def test_options_that_do_not_fit_are_one_line_and_write_nothing(
    given: str, rule: str, folder: Path, parser_folder: Path, cache: Path, refused: Refused
) -> None:
    root = cache.parents[2]
    places = {"FOLDER": folder, "PARSER": parser_folder, "ROOT": root, "OUT": root / "out"}

    def filled(text: str) -> str:
        return re.sub("[A-Z]{3,}", lambda match: str(places.get(match[0], match[0])), text)

    assert filled(rule) in refused(*map(filled, given.split()))
    assert not [*root.iterdir()]

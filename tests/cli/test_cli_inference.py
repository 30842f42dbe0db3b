"""aiayn translate, parse and export: what goes in and out, which options go together."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from small_models import SENTENCES, small_model

from fairseq_aiayn import load
from fairseq_aiayn.inference.folder import read_folder

Aiayn = Callable[..., tuple[int, str, str]]
Give = Callable[..., None]
Refused = Callable[..., str]
LINES = ["", *SENTENCES, "", "the cat saw"]
TEXT = "".join(f"{line}\n" for line in LINES)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("translates")
    return small_model(root / "exp").export(root / "en-de")


@pytest.fixture(scope="module")
def parser(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("parses")
    return small_model(root / "exp", "parser").export(root / "parser")


@pytest.fixture(scope="module")
def training(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a recipe leaves: the data with a note of its text, and a run."""
    root = tmp_path_factory.mktemp("training")
    small = small_model(root / "exp")
    run = root / "exp" / "tiny-1"
    run.mkdir()
    small.checkpoint.rename(run / "average.pt")
    small.codes.rename(small.data / "codes")
    note = {"pieces": "byte_pairs", "normalize": False, "lowercase": True}
    (small.data / "text.json").write_text(json.dumps(note))
    search = f"fairseq-generate {small.data} --path {run}/average.pt"
    settings = {"system": "aiayn", "corpus": "invented", "commands": {"generate": search}}
    (run / "settings.json").write_text(json.dumps(settings))
    return root / "exp"


def test_translations_are_the_apis_in_order(folder: Path, aiayn: Aiayn, give: Give) -> None:
    translator = load(folder, "cpu")
    expected = translator.search(LINES, beam=3, alpha=0.2, nbest=3)
    options = ("--cpu", "--beam", 3, "--alpha", 0.2)
    give(b"\xef\xbb\xbf" + TEXT.encode())  # a byte order mark is no word
    status, out, _ = aiayn("translate", folder, *options, "--threads", 1, "--batch-tokens", 9)
    assert (status, out.split("\n")) == (0, [*(best.text for best, *_ in expected), ""])
    give(TEXT)
    _, out, _ = aiayn("translate", folder, *options, "--nbest", 3, "--scores")
    lines = iter(out.splitlines())
    for outputs in expected:
        block = [next(lines) for _ in range(3)]  # three lines for every sentence, an empty one too
        for line, output in zip(block, outputs, strict=False):
            score, log_p, text = line.split("\t")
            assert text == output.text
            assert math.isclose(float(score), output.score, abs_tol=1e-4)
            assert math.isclose(float(log_p), output.log_p, abs_tol=1e-4)
        assert block[len(outputs) :] == [""] * (3 - len(outputs))
    assert next(lines, None) is None


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
    parser: Path, aiayn: Aiayn, give: Give
) -> None:
    options = ("--model", parser, "--cpu", "--tokenized", "--beam", 1)
    sentences = ["the cat", "", "a (b c", "the cat"]
    tree = aiayn("parse", *options, "the cat")[1]
    status, out, err = aiayn("parse", *options, *sentences)
    assert (status, out) == (2, f"{tree}\n")
    assert err.startswith("aiayn parse: sentence 3: a word") and "'(b'" in err
    assert aiayn("parse", *options, "--skip-invalid", *sentences)[:2] == (0, f"{tree}\n\n{tree}")
    give("\n".join(sentences))
    assert aiayn("parse", *options)[2].startswith("aiayn parse: standard input:3: a word")


def test_a_terminal_is_asked_again_after_an_invalid_line(
    folder: Path, parser: Path, aiayn: Aiayn, give: Give
) -> None:
    give(b"caf\xe9\n" + b"x " * 1025 + b"\n\nthe cat\n", terminal=True)
    status, out, err = aiayn("translate", folder, "--scores", "--beam", 1, "--cpu")
    empty, translation = out.splitlines()
    assert (status, empty) == (0, "0.0000\t0.0000\t") and float(translation.split("\t")[1]) < 0
    assert "0xe9" in err and "at most 1,024" in err
    give("a (b c\n\nthe cat\n", terminal=True)
    status, out, err = aiayn("parse", "--model", parser, "--tokenized", "--beam", 1, "--cpu")
    assert (status, out.split("\n")[0], out.count("\n")) == (0, "", 2)
    assert "'(b'" in err


def test_a_folder_a_run_and_a_checkpoint_are_the_same_model(
    training: Path, tmp_path: Path, aiayn: Aiayn, give: Give
) -> None:
    checkpoint = ("--checkpoint", training / "tiny-1/average.pt", "--data-bin", training / "bin")
    cut = ("--bpe-codes", training / "bin/codes", "--lowercase")
    told = ("--licence", "CC0", "--scores", "BLEU 1")
    assert aiayn("export", *checkpoint, *cut, *told, "--output", tmp_path / "one") == (0, "", "")
    assert aiayn("export", training / "tiny-1", "--output", tmp_path / "two") == (0, "", "")
    assert read_folder(tmp_path / "one").config.told == {"licence": "CC0", "scores": "BLEU 1"}
    assert "CC0" in (tmp_path / "one" / "README.md").read_text()
    assert read_folder(tmp_path / "two").config.told == {"data": "invented"}
    outputs = []
    for model in ((tmp_path / "one",), (tmp_path / "two",), (training / "tiny-1",), checkpoint):
        give(TEXT)
        outputs.append(aiayn("translate", *model, *(cut if model == checkpoint else ()), "--cpu"))
    assert outputs == [outputs[0]] * 4 and outputs[0][0] == 0
    again = ("export", tmp_path / "one", "--to", "fairseq", "--output", tmp_path / "again.pt")
    assert aiayn(*again) == (0, "", "")
    give(TEXT)
    again = ("--checkpoint", tmp_path / "again.pt", "--data-bin", training / "bin", *cut)
    assert aiayn("translate", *again, "--cpu") == outputs[0]
    assert aiayn("export", *checkpoint, "--output", tmp_path / "noted") == (0, "", "")
    assert read_folder(tmp_path / "noted").config.text == read_folder(tmp_path / "two").config.text
    (training / "bin" / "text.json").unlink()
    status, _, err = aiayn("export", *checkpoint, "--output", tmp_path / "uncut")
    assert status == 0 and "nothing says how the text was cut" in err


@pytest.mark.parametrize("task", ["translation", "parsing"])
def test_the_card_has_a_command_that_works(
    task: str, folder: Path, parser: Path, aiayn: Aiayn, give: Give
) -> None:
    model = folder if task == "translation" else parser
    words = re.search(r"(?m)^    aiayn (.*) < text$", (model / "README.md").read_text())[1]
    give("the cat\n")
    status, output, _ = aiayn(*words.replace("THIS_FOLDER", str(model)).split(), "--cpu")
    assert (status, output.count("\n")) == (0, 1)


def test_a_model_of_the_other_task_is_named(folder: Path, parser: Path, refused: Refused) -> None:
    assert f"{parser}: expected a translation model, got a parser" in refused("translate", parser)
    assert f"{folder}: expected a parser" in refused("parse", "--model", folder, "the cat")


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        ("translate", "a run directory, a model folder or --checkpoint must be given"),
        ("translate FOLDER --threads 0", "--threads must be at least 1"),
        ("parse --checkpoint ROOT/bin x", "--checkpoint: goes with --data-bin"),
        ("export FOLDER --to fairseq --output ROOT", "must not exist yet"),
        ("export FOLDER --to ctranslate2 --licence MIT --output OUT", "--to folder or marian"),
        ("export ROOT --lowercase --output OUT", "--lowercase: goes with --checkpoint"),
        ("export --checkpoint c --data-bin b --normalize --output OUT", "goes with --bpe-codes"),
        ("export ROOT --checkpoint c --data-bin b --output OUT", "must be given, only one"),
    ],
)
def test_options_that_do_not_fit_are_one_line_and_write_nothing(
    given: str, rule: str, folder: Path, tmp_path: Path, refused: Refused, give: Give
) -> None:
    give("the cat\n")
    root = tmp_path / "root"
    root.mkdir()
    places = {"FOLDER": folder, "ROOT": root, "OUT": tmp_path / "out"}
    words = [
        re.sub("[A-Z]+", lambda m: str(places.get(m[0], m[0])), word) for word in given.split()
    ]
    assert rule in refused(*words)
    assert [*tmp_path.rglob("*")] == [root]

"""aiayn export --to ctranslate2, aiayn translate with what it wrote."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from ctranslate2_models import KINDS, small_model, written

from fairseq_aiayn.cli.main import main
from fairseq_aiayn.inference.ctranslate2 import write_ctranslate2
from fairseq_aiayn.inference.export import model_of, of_run, write_model
from fairseq_aiayn.inference.folder import BYTE_PAIRS, SPECIAL, Files, TextProcessing, write_folder
from fairseq_aiayn.paper import TRANSLATION
from fairseq_aiayn.runs.record import SEARCH
from fairseq_aiayn.settings import ENCODER_AND_DECODER

CODES = "#version: 0.2\na 1</w>\n"  # joins a and 1 at the end of a word


@pytest.fixture
def folder(tmp_path) -> Path:
    """A model in a folder; its text is in byte pairs."""
    model = small_model(KINDS["base"])
    for name in ("dict.en.txt", "dict.de.txt"):
        lines = "".join(f"{one} 1\n" for one in model.source.types[len(SPECIAL) :])
        (tmp_path / name).write_text(lines)
    (tmp_path / "codes").write_text(CODES)
    files = Files(*(tmp_path / name for name in ("dict.en.txt", "dict.de.txt", "codes")))
    config = replace(model.config, text=TextProcessing(BYTE_PAIRS))
    write_folder(config, model.transformer, files, tmp_path / "folder")
    return tmp_path / "folder"


@pytest.fixture
def translate(aiayn, give) -> Callable[..., str]:
    """What `aiayn translate` prints for a text."""

    def printed(text: str, *options: object) -> str:
        give(text)
        status, output, _ = aiayn("translate", *options)
        assert status == 0
        return output

    return printed


def test_from_a_folder_to_translations(folder, translate, tmp_path):
    other = tmp_path / "new" / "ct2"
    assert main(["export", str(folder), "--to", "ctranslate2", "--output", str(other)]) == 0
    assert {path.name for path in other.iterdir()} == {
        *("model.bin", "config.json", "shared_vocabulary.json", "aiayn.json", "codes")
    }
    text = "a1 a2\n\na7 a1 a3 a1 unknown\n"
    options = ("--scores", "--nbest", 2, "--threads", 1, "--device", "cpu")
    ours = translate(text, folder, *options)
    shutil.rmtree(folder)
    theirs = translate(text, other, *options)
    assert [line.split("\t")[2] for line in theirs.splitlines()] == [
        line.split("\t")[2] for line in ours.splitlines()
    ]
    assert theirs.count("\n") == 5


def test_byte_pairs_that_changed_are_refused(folder, tmp_path, refused):
    """Breaks if half of them silently cut text otherwise than in the training."""
    other = tmp_path / "ct2"
    assert main(["export", str(folder), "--to", "ctranslate2", "--output", str(other)]) == 0
    (other / "codes").write_text("#version: 0.2\n")
    line = f"aiayn translate: {other / 'codes'}: must be as it was exported, its SHA-256 is another"
    assert refused("translate", other) == line


def test_a_parser_is_not_for_translating(tmp_path, refused):
    """Breaks if its symbols are printed as if they were a translation."""
    model = small_model(KINDS["base"])
    parser = replace(model.config, task="parsing")
    write_ctranslate2(replace(model, config=parser), "float32", tmp_path / "ct2")
    line = f"aiayn translate: {tmp_path / 'ct2'}: must translate, is for parsing"
    assert refused("translate", tmp_path / "ct2") == line


def test_the_target_must_not_exist_and_appears_whole_or_not_at_all(folder, tmp_path, refused):
    arguments = ("export", folder, "--to", "ctranslate2", "--output")
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    line = f"aiayn export: --output {folder}: must not exist yet"
    assert refused(*arguments, folder) == line
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before
    (folder / "codes").unlink()
    line = f"aiayn export: {folder / 'codes'}: No such file or directory"
    assert refused(*arguments, tmp_path / "ct2") == line
    assert {path.name for path in tmp_path.iterdir()} == {
        *("folder", "codes", "dict.en.txt", "dict.de.txt")
    }


def test_options_that_do_not_fit_are_refused(folder, tmp_path, refused):
    to, output = ("--to", "ctranslate2"), ("--output", tmp_path / "new")
    given = [
        (folder, "--quantization", "int8"),
        (folder, *to, "--precision", "float16"),
        ("--checkpoint", tmp_path / "codes", *to),
        (tmp_path, *to),
    ]
    assert [refused("export", *options, *output) for options in given] == [
        "aiayn export: --quantization: is of --to ctranslate2; a folder has --precision",
        "aiayn export: --precision: is of a model folder; CTranslate2 has --quantization",
        "aiayn export: --data-bin must be given with --checkpoint: it has the dictionaries",
        f"aiayn export: {tmp_path / 'settings.json'}: No such file or directory",
    ]
    assert not (tmp_path / "new").exists()


def test_a_precision_is_the_models(tmp_path, refused):
    line = (
        "aiayn translate: --precision bfloat16: a model for CTranslate2 has the precision that"
        " aiayn export gave it"
    )
    directory = written(small_model(KINDS["base"]), tmp_path)
    assert refused("translate", directory, "--precision", "bfloat16") == line


class WithoutCTranslate2:
    """Finds no such package."""

    def find_spec(self, name: str, *_: object) -> None:
        if name == "ctranslate2":
            raise ModuleNotFoundError(name=name)


def test_without_the_package_both_commands_say_how_to_get_it(
    folder, tmp_path, refused, monkeypatch
):
    for name in [name for name in sys.modules if "ctranslate2" in name and "test" not in name]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [WithoutCTranslate2(), *sys.meta_path])
    needed = "ctranslate2 is needed for this: pip install ctranslate2"
    to = ("--to", "ctranslate2", "--output", tmp_path / "new")
    assert refused("export", folder, *to) == f"aiayn export: {needed}"
    (tmp_path / "ct2").mkdir()
    (tmp_path / "ct2" / "aiayn.json").touch()
    assert refused("translate", tmp_path / "ct2") == f"aiayn translate: {needed}"


def test_from_a_run_of_a_recipe(tmp_path):
    model = small_model(KINDS["base"])
    run, data = tmp_path / "aiayn-base-1", tmp_path / "bin"
    for directory in (run, data):
        directory.mkdir()
    for language in ("en", "de"):
        lines = "".join(f"{one} 1\n" for one in model.source.types[len(SPECIAL) :])
        (data / f"dict.{language}.txt").write_text(lines)
    sizes = vars(model.config.sizes)
    options = {f"encoder_{name}": sizes[symbol] for name, symbol in ENCODER_AND_DECODER.items()}
    options |= {"arch": "aiayn_base", "source_lang": "en", "target_lang": "de"}
    options |= {"d_k": sizes["d_k"], "d_v": sizes["d_v"], "dropout": 0.0}
    write_model(model.transformer, options, run / "average.pt")
    command = "fairseq-generate exp/x/bin --path exp/x/aiayn-base-1/average.pt"
    settings = {"system": "aiayn", "commands": {SEARCH: command}}
    (run / "settings.json").write_text(json.dumps(settings))
    write_ctranslate2(model_of(of_run(run)), "float32", tmp_path / "ct2")
    config = replace(model.config, search=TRANSLATION)
    direct = written(replace(model, config=config), tmp_path)
    assert (tmp_path / "ct2" / "model.bin").read_bytes() == (direct / "model.bin").read_bytes()

"""What cannot be exported or used is one line of `aiayn`, status 2, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from full_disk import full_disk
from safetensors.torch import load_file, save_file
from small_models import Small, small_model

from fairseq_aiayn.cli import main as cli
from fairseq_aiayn.inference import folder as folder_module
from fairseq_aiayn.inference.folder import read_folder

Aiayn = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Small:
    return small_model(tmp_path_factory.mktemp("model") / "exp")


@pytest.fixture(scope="module")
def exported(small: Small, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small.export(tmp_path_factory.mktemp("exported") / "folder")


@pytest.fixture
def folder(exported: Path, tmp_path: Path) -> Path:
    """A copy to damage."""
    return shutil.copytree(exported, tmp_path / "folder")


@pytest.fixture(autouse=True)
def a_sentence(give: Callable[..., None]) -> None:
    """What standard input has, where a test gives nothing else."""
    give("the cat\n")


def set_field(folder: Path, names: str, value: object) -> None:
    """Change a value in config.json, at a place such as sizes.N."""
    config = json.loads((folder / "config.json").read_text())
    *outer, last = names.split(".")
    inside = config
    for name in outer:
        inside = inside[name]
    inside[last] = value
    (folder / "config.json").write_text(json.dumps(config))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("model.safetensors", "must be a safetensors file, is not or is cut short"),
        ("config.json", "expected JSON: "),
        ("source.txt", "must be as it was exported, its SHA-256 is another"),
        ("target.txt", "must be as it was exported, its SHA-256 is another"),
        ("codes", "must be as it was exported, its SHA-256 is another"),
    ],
)
def test_a_file_that_is_cut_off_or_missing_or_a_pipe(
    name: str, message: str, folder: Path, refused: Callable[..., str]
) -> None:
    path = folder / name
    for end in (path.stat().st_size // 2, path.stat().st_size - 3, 5, 0):
        path.write_bytes(path.read_bytes()[:end])
        assert refused("translate", folder).startswith(f"aiayn translate: {path}: {message}")
    path.unlink()
    missing = f"aiayn translate: {path}: No such file or directory"
    assert refused("translate", folder) == missing
    os.mkfifo(path)
    assert f"{path}: expected a plain file" in refused("translate", folder)


def test_json_of_many_brackets(folder: Path, refused: Callable[..., str]) -> None:
    path = folder / "config.json"
    path.write_text("[" * 100_000)
    message = f"aiayn translate: {path}: expected JSON: "
    assert refused("translate", folder).startswith(message)


@pytest.mark.parametrize(
    ("names", "value", "message"),
    [
        ("format", 2, "'format' must be 1, is 2: another version's folder"),
        ("sizes.N", "2", "sizes.N: expected a valid integer, got '2'"),
        ("search.beam", True, "search.beam: expected a valid integer, got True"),
        ("sizes.N", -1, "N must be at least 1, got -1"),
        ("sizes.N", 10**6, "N must be at most 1000, got 1000000"),
        ("sizes.N", 3, "must have the parameters of its configuration, lacks decoder.layers.2"),
        ("sizes.d_model", 10**12, "does not fit its configuration and vocabularies"),
        ("sizes.d_model", 10**18, "its sizes must fit into 64 bits, do not"),
        ("sizes.d_ff", 10**40, "its sizes must fit into 64 bits, do not"),
        ("sizes.d_model", 15, "does not fit its configuration and vocabularies"),
        ("sizes.P_drop", None, "sizes.P_drop: expected a valid number, got None"),
        ("sizes", [], "sizes: expected an object, got []"),
        ("learned_lengths", [10**15, 9], "must have the parameters of its configuration, lacks"),
        ("learned_lengths", [-1, 9], "'learned_lengths' must be two numbers from 1 on"),
        ("task", "chess", "'task' must be one of translation, parsing, is 'chess'"),
        ("sharing", "some", "'sharing' must be one of all, target, none, is 'some'"),
        ("source_lang", "../en", "a language must be letters, digits, - or _, is '../en'"),
        ("text.pieces", "../../etc/passwd", "'pieces' must be one of byte_pairs, word_pieces"),
        ("sizes.attention_window", 2, "expected self-attention over whole sentences, got"),
        (
            "search.alpha",
            float("nan"),
            "config.json: the length penalty α must be a number from 0 to 8, got nan",
        ),
        ("search.beam", 10**9, "the beam size must be at most 80, the size of the target"),
        ("sha256", {}, "source.txt: must be as it was exported"),
        ("search", None, "search: expected an object, got None"),
    ],
)
def test_a_configuration_that_does_not_fit(
    names: str, value: object, message: str, folder: Path, refused: Callable[..., str]
) -> None:
    """Sizes that no memory could hold are refused before any memory is taken for them."""
    set_field(folder, names, value)
    line = refused("translate", folder)
    assert message in line
    assert str(folder) in line or names == "search.beam"


def test_another_models_weights_and_weights_that_are_no_numbers(
    folder: Path, refused: Callable[..., str]
) -> None:
    path = folder / "model.safetensors"
    weights = load_file(path)
    name = "encoder.layers.1.feed_forward.W_1.bias"
    for value, message in (
        (torch.full_like(weights[name], torch.nan), f"{name} must have finite values"),
        (weights[name][:-1].clone(), f"{name} is [23] there and [24] by them"),
        (weights[name].to(torch.float8_e4m3fn), "float16, bfloat16, is float8_e4m3fn"),
        (weights[name].int(), f"{name} must be one of float32, float16, bfloat16, is int32"),
    ):
        save_file(weights | {name: value}, path)
        line = refused("translate", folder)
        assert message in line and str(path) in line
    save_file(weights | {"more": weights[name].clone()}, path)
    message = f"{path}: must have the parameters of its configuration, has more"
    assert message in refused("translate", folder)


@pytest.mark.parametrize(
    ("flags", "stdin", "message"),
    [
        (["--beam", "0"], b"x\n", "the beam size must be at least 1, got 0"),
        (["--alpha", "nan"], b"x\n", "α must be a number from 0 to 8, got nan"),
        (["--nbest", "5"], b"x\n", "nbest must be between 1 and the beam size 4, got 5"),
        (["--threads", "0"], b"x\n", "--threads must be at least 1, got 0"),
        (["--batch-tokens", "0"], b"x\n", "batch_tokens must be at least 1, got 0"),
        (["--device", "nowhere"], b"x\n", "device nowhere: "),
        ([], b"x\n" + b"word " * 10_000, "sentence 2 must have at most 1,024 tokens, has"),
        ([], b"x\ncaf\xe9\n", "standard input:2: byte 4 (0xe9) is not UTF-8"),
    ],
)
def test_options_and_text_out_of_range(
    flags: list[str],
    stdin: bytes,
    message: str,
    exported: Path,
    refused: Callable[..., str],
    give: Callable[..., None],
) -> None:
    give(stdin)
    assert message in refused("translate", exported, *flags)


def test_a_missing_package_is_named(
    exported: Path, refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tqdm", None)
    line = refused("translate", exported)
    assert line == "aiayn translate: tqdm is needed for this: pip install tqdm"


def test_in_a_terminal_a_bad_line_is_reported_and_the_next_one_asked_for(
    exported: Path, capsys: pytest.CaptureFixture[str], give: Callable[..., None]
) -> None:
    give(b"caf\xe9\n" + b"x " * 1025 + b"\n\nthe cat\n", terminal=True)
    assert cli.main(["translate", str(exported), "--scores", "--beam", "1"]) == 0
    printed = capsys.readouterr()
    empty, translation = printed.out.splitlines()
    assert empty == "0.0000\t0.0000\t" and float(translation.split("\t")[1]) < 0
    errors = printed.err.splitlines()
    assert errors[1] == "> standard input:1: byte 4 (0xe9) is not UTF-8"
    assert errors[2].startswith("> sentence 1 must have at most 1,024 tokens")
    assert errors[3:] == ["> > > "]


def test_a_model_of_the_other_task_is_named(
    tmp_path: Path, exported: Path, refused: Callable[..., str]
) -> None:
    parser = small_model(tmp_path / "parser", "parser").export(tmp_path / "folder")
    line = refused("translate", parser)
    assert line == f"aiayn translate: {parser}: must translate, is for parsing"
    line = refused("parse", "--model", exported, "the cat")
    assert line == f"aiayn parse: {exported}: must be a parser, is a model for translation"


def changed(small: Small, path: Path, **options: object) -> Path:
    """Write the model's checkpoint with other options."""
    state = torch.load(small.checkpoint)
    vars(state["args"]).update(options)
    torch.save(state, path)
    return path


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            lambda path, small: changed(small, path, arch="transformer"),
            "must be a model of this plugin, is 'transformer': stock fairseq's have other",
        ),
        (
            lambda path, small: changed(small, path, encoder_layers=3),
            "must have the parameters of its configuration, lacks decoder.layers.2",
        ),
        (
            lambda path, small: changed(small, path, encoder_layers="3"),
            "sizes.N: expected a valid integer, got '3'",
        ),
        (
            lambda path, small: changed(small, path, source_lang="../en"),
            "bin: must have the dictionaries of ../en and de, has those of de and en",
        ),
        (lambda path, small: path.write_bytes(b"PK"), "truncated, or not a PyTorch checkpoint"),
        (lambda path, small: None, "checkpoint.pt: No such file or directory"),
    ],
)
def test_a_checkpoint_that_cannot_be_exported(
    damage: Callable, message: str, small: Small, tmp_path: Path, refused: Callable[..., str]
) -> None:
    path = tmp_path / "checkpoint.pt"
    damage(path, small)
    before = sorted(tmp_path.iterdir())
    given = ("--data-bin", small.data, "--bpe-codes", small.codes, "--output", tmp_path / "out")
    assert message in refused("export", "--checkpoint", path, *given)
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--output", "{root}/bin"], "bin: must not exist yet"),
        (["--output", "{root}/codes/out"], "codes: File exists"),
        (["--bpe-codes", "{root}/nowhere"], "nowhere: No such file or directory"),
        (["--data-bin", "{root}/nowhere"], "nowhere: No such file or directory"),
        (["--sentencepiece-model", "{root}/codes"], "only one can have cut the text"),
        (["{root}/bin"], "a run directory, a model folder or --checkpoint must be given, only one"),
        (["--to", "fairseq"], "--to fairseq: must be given a model folder"),
        (["--to", "ctranslate2", "--licence", "MIT"], "--licence: --to ctranslate2 has no card"),
    ],
)
def test_options_of_an_export_that_do_not_fit(
    more: list[str], message: str, tmp_path: Path, refused: Callable[..., str]
) -> None:
    root = tmp_path / "exp"
    small = small_model(root)
    before = sorted(tmp_path.rglob("*"))
    given = ["--checkpoint", small.checkpoint, "--data-bin", small.data, "--bpe-codes", small.codes]
    given += ["--output", tmp_path / "out", *(one.format(root=root) for one in more)]
    assert message in refused("export", *given)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["RUN", "--bpe-codes", "codes"], "--bpe-codes: goes with --checkpoint"),
        (["RUN", "--lowercase"], "--lowercase: goes with --checkpoint"),
        (
            ["--checkpoint", "ck", "--data-bin", "bin", "--normalize"],
            "--normalize: goes with --bpe",
        ),
        (
            ["--checkpoint", "ck", "--data-bin", "d", "--sentencepiece-model", "m", "--lowercase"],
            "--lowercase: goes with --bpe",
        ),
    ],
)
def test_an_option_that_would_change_nothing_is_refused(
    given: list[str], message: str, tmp_path: Path, refused: Callable[..., str]
) -> None:
    """Breaks if a model of lower-cased text silently gets cased text."""
    assert message in refused("export", *given, "--output", tmp_path / "out")


def test_a_dictionary_of_another_training_is_named(
    small: Small, tmp_path: Path, refused: Callable[..., str]
) -> None:
    data = shutil.copytree(small.data, tmp_path / "bin")
    for language in ("en", "de"):
        with (data / f"dict.{language}.txt").open("a") as file:
            file.write("another 1\n")
    given = ("--data-bin", data, "--bpe-codes", small.codes, "--output", tmp_path / "out")
    line = refused("export", "--checkpoint", small.checkpoint, *given)
    assert "does not fit its configuration and vocabularies, encoder.embedding" in line
    assert not (tmp_path / "out").exists()


def test_weights_too_large_for_the_precision_leave_nothing(
    small: Small, tmp_path: Path, refused: Callable[..., str], aiayn: Aiayn
) -> None:
    state = torch.load(small.checkpoint)
    state["model"]["encoder.stack.layers.0.feed_forward.W_1.bias"][3] = 1e6
    torch.save(state, tmp_path / "checkpoint.pt")
    given = ("--checkpoint", tmp_path / "checkpoint.pt", "--data-bin", small.data)
    given = (*given, "--bpe-codes", small.codes, "--output", tmp_path / "out")
    line = refused("export", *given, "--precision", "float16")
    assert "W_1.bias in float16 must have finite values" in line
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint.pt"]
    assert aiayn("export", *given, "--precision", "bfloat16")[0] == 0


def test_what_a_killed_export_leaves_is_no_model_and_in_nobodys_way(
    small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed before any of its steps, without the chance to tidy up."""
    steps = ("save_weights", "sha256_of", "model_card", "asdict", "shutil.copyfile", "os.rename")
    for number, step in enumerate(steps):
        with monkeypatch.context() as patch:
            patch.setattr(folder_module.shutil, "rmtree", lambda *args, **kwargs: None)
            module, _, name = step.rpartition(".")
            where = {"": folder_module, "shutil": shutil, "os": os}[module]

            def killed(*args: object, **kwargs: object) -> None:
                raise KeyboardInterrupt

            patch.setattr(where, name, killed)
            with pytest.raises(KeyboardInterrupt):
                small.export(tmp_path / "folder")
        assert not (tmp_path / "folder").exists()
        parts = sorted(tmp_path.glob("*.part/folder"))
        assert len(parts) == number + 1
    for part in parts:
        if (part / "config.json").exists():  # only the renaming was left to do
            read_folder(part)
        else:
            with pytest.raises(FileNotFoundError):
                read_folder(part)
    assert sum((part / "config.json").exists() for part in parts) == 1
    read_folder(small.export(tmp_path / "folder"))


def test_a_folder_is_no_run_and_a_run_is_no_folder(
    exported: Path, tmp_path: Path, refused: Callable[..., str]
) -> None:
    output = ("--output", tmp_path / "out")
    line = f"{exported}: must be a run or --checkpoint, is a model folder already"
    assert refused("export", exported, *output, "--precision", "float16") == f"aiayn export: {line}"
    line = "aiayn export: --to fairseq: must be given a model folder"
    assert refused("export", tmp_path, "--to", "fairseq", *output) == line


@pytest.mark.parametrize("target", ["folder", "fairseq"])
def test_a_full_disk_is_one_line_and_leaves_nothing(
    target: str, small: Small, exported: Path, tmp_path: Path, refused: Callable[..., str]
) -> None:
    given = ("--checkpoint", small.checkpoint, "--data-bin", small.data, "--bpe-codes", small.codes)
    given = (exported,) if target == "fairseq" else given
    with full_disk(1_000):
        line = refused("export", *given, "--to", target, "--output", tmp_path / "out")
    assert str(tmp_path) in line and "out" in line and "File too large" in line
    assert not any(tmp_path.iterdir())


def test_a_checkpoint_in_a_missing_directory_is_one_line(
    exported: Path, tmp_path: Path, refused: Callable[..., str]
) -> None:
    path = tmp_path / "nowhere" / "checkpoint.pt"
    line = refused("export", exported, "--to", "fairseq", "--output", path)
    assert line == f"aiayn export: {path}: No such file or directory"


@pytest.mark.parametrize("there", ["a folder", "another file"])
def test_a_checkpoint_is_not_written_over_what_exists(
    there: str, exported: Path, tmp_path: Path, refused: Callable[..., str]
) -> None:
    path = tmp_path / "there"
    path.mkdir() if there == "a folder" else path.write_text("x")
    line = refused("export", exported, "--to", "fairseq", "--output", path)
    assert line == f"aiayn export: --output {path}: must not exist yet"
    assert path.is_dir() or path.read_text() == "x"


def test_a_model_whose_text_nobody_can_cut_says_so(
    small: Small, tmp_path: Path, aiayn: Aiayn
) -> None:
    given = ("--checkpoint", small.checkpoint, "--data-bin", small.data)
    status, out, err = aiayn("export", *given, "--output", tmp_path / "out")
    assert (status, out) == (0, "")
    assert err == (
        "nothing says how the text was cut (--bpe-codes, --sentencepiece-model): the model takes"
        " text in pieces\n"
    )

"""`aiayn check`: what a training lacks is said before it begins, all at once."""

import os
import shutil
import sys
from collections import namedtuple
from importlib.metadata import version

import fork_server
import pytest
import torch
from recipe_runs import RECIPES, write_tool

GIB = 2**30


@pytest.fixture(autouse=True)
def room(monkeypatch):
    """fairseq's commands are installed, and so many GiB are free."""

    def put(gib):
        usage = namedtuple("usage", "free")(gib * GIB)
        monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)

    put(1000)
    monkeypatch.setenv("PATH", f"{fork_server.programs()}:{os.environ['PATH']}")
    return put


def test_nothing_is_missing_here(aiayn, monkeypatch, tmp_path):
    words = ("check", "--directory", tmp_path / "new" / "exp", "--programs", "sh")
    status, output, errors = aiayn(*words)
    assert (status, errors) == (0, "") and f"torch {torch.__version__}" in output
    assert "note: reports" not in output and not (tmp_path / "new").exists()
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert "no curves; matplotlib is needed for this: pip install" in aiayn(*words)[1]


def test_all_that_is_missing_is_said_at_once(aiayn, monkeypatch):
    monkeypatch.setenv("PATH", "/bin")
    words = ("--programs", "sh", "no-such-program", "--gpus", 99, "--target-lang", "x")
    status, output, errors = aiayn("check", *words)
    assert status == 2 and errors.startswith("aiayn check: 4 things are missing")
    for part in ("no-such-program is", "fairseq-preprocess is", "99 GPUs", "a code such as"):
        assert len([line for line in output.split("\n") if part in line]) == 1
    assert " sh " not in output


@pytest.mark.parametrize(
    "words", ["--gpus -1", "--runs 0", "--vocab 0", "--text-gib nan", "--text-gib inf"]
)
def test_numbers_that_mean_nothing_are_refused(refused, words):
    assert refused("check", *words.split()).startswith(f"aiayn check: {words.split()[0]}: expected")


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        ("True 0.0.1", "which has fairseq-aiayn 0.0.1, here it is"),
        ("", "which has fairseq-aiayn not at all"),
        ("False {here}", "fairseq is needed for this: pip install"),
        ("True {here}", None),
    ],
)
def test_fairseqs_python_must_have_this_package(aiayn, monkeypatch, tmp_path, answer, fault):
    answer = answer.format(here=version("fairseq-aiayn"))
    write_tool(tmp_path / "python3.9", f"echo {answer}\n")
    program = write_tool(tmp_path / "fairseq-train", "") / "fairseq-train"
    program.write_text(f"#!{tmp_path}/python3.9 -s\n")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    status, _, errors = aiayn("check")
    assert status == (2 if fault else 0) and (fault or "") in errors


def test_room_is_for_the_text_and_the_checkpoints_that_are_not_there_yet(aiayn, room, tmp_path):
    room(9)
    enough = ("check", "--directory", tmp_path, "--row", "base")  # 8 files of 16 bytes a parameter
    assert aiayn(*enough)[0] == 0
    german = ("--manifest", RECIPES / "wmt14_en_de/corpus.toml", "--source-lang", "en")
    (tmp_path / "file").touch()
    below = aiayn("check", "--directory", tmp_path / "file/exp")
    assert "file cannot be written to" in below[2]
    for more in (("--text-gib", 3), ("--runs", 2), (*german, "--target-lang", "de")):
        assert "has 9.0 GiB free" in aiayn(*enough, *more)[2]
    with (tmp_path / "made").open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, 3 * GIB)
    assert aiayn(*enough, "--text-gib", 3)[0] == 0


def test_gpus_have_the_memory_and_the_precision_of_the_training(aiayn, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    properties = namedtuple("properties", "total_memory")(2 * GIB)
    for name, value in {
        "device_count": lambda: 1,
        "get_device_name": lambda index: "small",
        "get_device_properties": lambda index: properties,
        "is_bf16_supported": lambda emulated: emulated,
    }.items():
        monkeypatch.setattr(torch.cuda, name, value)
    assert aiayn("check", "--row", "base", "--gpus", 1)[::2] == (0, "")
    for precision in ("bf16", "tf32"):
        output = aiayn("check", "--row", "big", "--gpus", 1, "--precision", precision)[1]
        assert "GPU 0 has 2.0 GiB" in output and "this GPU does not have it" in output
    assert aiayn("check", "--row", "big", "--gpus", 0, "--precision", "bf16")[0] == 0
    for precision in ("fp16", "tf32"):
        output = aiayn("check", "--gpus", 0, "--precision", precision)[2]
        assert f"--precision {precision} needs a GPU: a CPU has fp32 and bf16" in output

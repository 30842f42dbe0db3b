"""The comparisons in benchmarks/ with fairseq itself, on a handful of invented sentences."""

import json
import random
import subprocess
import sys
import time
from pathlib import Path

import agreement
import fork_server
import generate
import pytest
import scaling
import train
import workers
from patience import PATIENCE
from recipe_runs import alive
from scaling_curves import Curve, Work

ENVELOPE = {"machine", "packages", "commit", "command", "options", "load_average", "found"}


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    """A tiny invented language pair as fairseq-preprocess leaves it."""
    folder, rng = tmp_path_factory.mktemp("text"), random.Random(1)
    for split, sentences in (("train", 80), ("valid", 16), ("test", 6)):
        for language in ("en", "de"):
            words = [
                " ".join(f"w{rng.randrange(20)}" for _ in range(rng.randint(2, 7)))
                for _ in range(sentences)
            ]
            (folder / f"{split}.{language}").write_text("\n".join(words) + "\n")
    prefixes = [f"--{split}pref={folder / split}" for split in ("train", "valid", "test")]
    program = fork_server.programs() / "fairseq-preprocess"
    command = [program, "-s", "en", "-t", "de", *prefixes, "--joined-dictionary"]
    subprocess.run([*command, "--destdir", folder / "bin"], check=True, capture_output=True)
    return folder / "bin"


@pytest.fixture(scope="module")
def work(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("work")


@pytest.fixture(autouse=True)
def one_thread(monkeypatch):
    """The machine is shared, and nothing here depends on its cores, nor on how workers start."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setattr(sys, "executable", str(fork_server.programs() / fork_server.WORKER))


@pytest.fixture
def started(monkeypatch) -> list[int]:
    """The process ids of all workers; none may be left."""
    plain = workers.subprocess.Popen

    def popen(*arguments, **keywords):
        process = plain(*arguments, **keywords)
        if keywords.get("start_new_session"):
            pids.append(process.pid)
        return process

    pids: list[int] = []
    monkeypatch.setattr(workers.subprocess, "Popen", popen)
    return pids


def run(script, work: Path, monkeypatch, *options: str | Path) -> dict:
    """Run a script with options and return its JSON."""
    output = work / f"{script.__name__}.json"
    line = [f"{script.__name__}.py", "--row", "tiny", "--json", output, "--work", work, *options]
    monkeypatch.setattr(sys, "argv", list(map(str, line)))
    script.main()
    found = json.loads(output.read_text())
    assert ENVELOPE < found.keys()
    assert str(work) not in output.read_text()
    return found


def nothing_left(pids: list[int]) -> bool:
    deadline = time.monotonic() + PATIENCE
    while any(map(alive, pids)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return bool(pids) and not any(map(alive, pids))


def test_training_is_compared_by_the_tokens_of_every_turn(data, work, monkeypatch, started, capsys):
    short = ("--turns", "2", "--updates", "2", "--starts", "1", "--max-tokens", "64")
    found = run(train, work, monkeypatch, "--data", data, *short, "--precision", "float32")
    (row,) = found["rows"]
    stock, own = row["turns"]["stock float32"], row["turns"]["ours float32"]
    assert [turn["updates"] for turn in (*stock, *own)] == [2, 2, 2, 2]
    for turn in (*stock, *own):
        assert 0 < turn["seconds"] and turn["sentences"] < turn["target_tokens"] <= 2 * 64
        assert turn["positions"] >= turn["source_tokens"] + turn["target_tokens"]
        assert turn["peak_mib"] > row["held_before"]["ours float32"] > 50
    assert row["vocabulary"] == 24
    assert all(len(starts) == 1 and starts[0] > 0 for starts in row["starts"].values())
    assert row["limits"].keys() == {"float32", "bfloat16"}
    assert [each["figure"] for each in found["found"]] == [
        "training, target tokens/s",
        "start-up to first update",
        "share of the ceiling",
        "peak memory of a training step",
        "peak memory of the process",
    ]
    _, _, share, step, whole = found["found"]
    assert share["value"]["median"] > 0
    assert step["unit"] == whole["unit"] == "ours ÷ stock float32"
    assert 0.2 < step["value"]["median"] < 5
    assert "ours float32 " in capsys.readouterr().out
    assert nothing_left(started)


def test_what_a_system_fails_with_is_one_line(data, work, monkeypatch, started, tmp_path):
    for file in data.iterdir():
        (tmp_path / file.name).write_bytes(b"" if file.suffix == ".idx" else file.read_bytes())
    short = ("--turns", "1", "--updates", "1", "--max-tokens", "64", "--precision", "float32")
    with pytest.raises(SystemExit) as raised:
        run(train, work, monkeypatch, "--data", tmp_path, *short)
    assert str(raised.value).startswith("train: stock float32 ended with status 1: ")
    assert "\n" not in str(raised.value)
    assert nothing_left(started)


def test_the_losses_of_fast_and_reference_training_are_compared(
    data, work, monkeypatch, started, capsys
):
    found = run(
        agreement, work, monkeypatch, "--data", data, "--updates", "3", "--max-tokens", "64"
    )
    assert [len(losses) for losses in found["losses"].values()] == [3, 3, 3]
    float32, bfloat16 = found["found"]
    assert (float32["target"], float32["met"]) == ("at most 0.001", True)
    assert bfloat16["target"] is None and bfloat16["value"]["median"] > 0
    assert nothing_left(started)


def test_translating_is_compared_with_models_of_the_same_budget(
    data, work, monkeypatch, started, capsys
):
    short = ("--turns", "1", "--train-updates", "2", "--max-tokens", "64", "--length", "5")
    found = run(generate, work, monkeypatch, "--data", data, *short)
    # Two trainings; three translations and CTranslate2, in a first turn that does not count, too
    assert len(started) == 2 + 2 * 4
    names = ["stock float32", "ours float32", "ours bfloat16", "CTranslate2 float32"]
    assert list(found["turns"]) == names
    for name, (turn,) in found["turns"].items():
        assert turn["sentences"] == 6
        assert turn["tokens"] == 6 * (5 + 1), "each translation is as long, with its end"
        assert turn["sentences_per_second"] > 0
        if name != names[-1]:
            assert turn["process_seconds"] > 0 and turn["peak_mib"] > 100
    figures = [(each["figure"], each["unit"], each["target"]) for each in found["found"]]
    translating = "translating, sentences/s"
    for precision, target in (("float32", "at least 1"), ("bfloat16", "at least 1.5")):
        ours = f"ours {precision} ÷"
        assert (translating, f"{ours} stock float32", "at least 1.7") in figures
        beside = f"{translating.replace(',', ' beside CTranslate2,')}"
        assert (beside, f"{ours} CTranslate2 float32", target) in figures
    assert "tokens a sentence" in capsys.readouterr().out
    models = sorted(path.name for path in (work / "models").iterdir())
    assert models == ["tiny-ours", "tiny-stock"]
    assert nothing_left(started)


def test_the_curves_of_both_systems_are_measured_and_drawn(work, monkeypatch, started, capsys):
    small = [
        Curve("training step: batch", "tokens", {size: Work(size // 4, 4, 30) for size in (8, 16)}),
        Curve("decoding: beam", "beam size", {beam: Work(2, 3, 30, beam) for beam in (1, 2, 3)}),
        Curve("decoding: length", "tokens", {size: Work(2, size, 30, 2) for size in (3, 4)}),
    ]
    monkeypatch.setattr(scaling, "curves", lambda device: small)
    picture = work / "scaling.png"
    options = ("--turns", "1", "--points", "2", "--png", picture)
    found = run(scaling, work, monkeypatch, *options)
    training, decoding, lengths = found["curves"]
    assert list(training["seconds"]) == ["8", "16"]
    assert list(decoding["seconds"]) == ["1", "2"]
    for curve in (training, decoding, lengths):
        assert curve["growth"].keys() == {"stock float32", "ours float32"}
        assert all(turns[0] > 0 for size in curve["seconds"].values() for turns in size.values())
    assert [each["target"] for each in found["found"]] == ["at most 1.1"] * 3
    assert picture.read_bytes().startswith(b"\x89PNG") and picture.stat().st_size > 10_000
    assert not list(work.glob("*.part"))
    assert nothing_left(started)

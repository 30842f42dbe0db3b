"""recipes/table3: which runs it makes of a corpus's recipe, and what becomes of those that fail.

The text is a miniature's; fairseq's commands are stand-ins.
"""

import json
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from dry_runs import commands, dry_run, value
from patience import PATIENCE
from recipe_runs import (
    RECIPES,
    call,
    environment,
    files_of,
    finish,
    lines_of,
    mirrored,
    refusal,
    session_of,
    start,
    wait_for,
)

SCRIPT = RECIPES / "table3" / "run.sh"


@pytest.fixture(scope="module")
def text(corpus, tools, tmp_path_factory) -> Path:
    """EXP of the corpus's recipe, with its prepared text."""
    exp = tmp_path_factory.mktemp("text") / "exp"
    finish(mirrored(corpus, exp, "--stop_stage", "4"), **tools)
    return exp


@pytest.fixture
def command(corpus, tmp_path) -> Callable[..., list[str]]:
    """Return a function that gives the command of the recipe."""

    def words(*options: str | Path, passed: Sequence[str] = ()) -> list[str]:
        own = ["--exp", tmp_path / "exp", "--needs_mb", "1", "--max_update", "6", *options]
        small = ["--device", "cpu", "--needs_mb", "1", *passed]
        return [str(word) for word in (SCRIPT, *own, "--", *small)]

    return words


def settings(exp: Path, run: str) -> dict:
    return json.loads((exp / run / "settings.json").read_text())


def trainings(result: subprocess.CompletedProcess) -> list[str]:
    """List the trainings that were begun or gone on with."""
    return re.findall(r" stage 5-train-(\S+)(?: goes on)?$", result.stderr, re.MULTILINE)


def test_every_row_and_seed_is_trained_on_one_text_and_measured_as_table_3(
    corpus, tools, command, tmp_path
):
    exp = tmp_path / "exp"
    mirror = [*mirrored(corpus, exp)[3:], "--batch_tokens", "256"]
    words = command("--rows", "c_n4 c_n2", "--seeds", "1 2", passed=mirror)
    result = finish(words, **tools)
    runs = ["aiayn-c_n4-1", "aiayn-c_n4-2", "aiayn-c_n2-1", "aiayn-c_n2-2"]
    assert trainings(result) == runs
    for run in runs:
        made = settings(exp, run)
        _, row, seed = run.split("-")
        assert (made["name"], made["row"], made["seed"]) == (run, row, int(seed))
        assert (made["corpus"], made["subset"], made["averaged"]) == ("wmt14_en_de", "valid", 1)
        train = made["commands"]["train"]
        assert train.startswith(f"fairseq-train {exp}/text/bin ")
        assert f" --arch aiayn_{row} " in train
        flags = ("--seed", "--max-update", "--max-tokens")
        assert [value(train.split(), flag) for flag in flags] == [seed, "6", "256"]
        assert f"{exp}/{run}/checkpoints/checkpoint_last.pt" in made["commands"]["generate"]
        assert len(lines_of(exp / run / "hypothesis.txt")) == 20

    table = [line.split("|") for line in (exp / "table3.md").read_text().splitlines()]
    rows = {cells[1].strip(): cells[-2].strip() for cells in table if len(cells) > 3}
    assert rows["c_n2"] == rows["c_n4"] == "2"  # seeds
    content = json.loads((exp / "table3.json").read_text())
    assert sorted(run["settings"]["name"] for run in content["runs"]) == sorted(runs)

    before = files_of(exp)
    again = call(words, **tools)
    assert (again.returncode, trainings(again)) == (0, [])
    assert files_of(exp) == before


def test_a_run_that_fails_is_listed_and_does_not_keep_others_from_theirs(
    text, tools, command, tmp_path
):
    exp = tmp_path / "exp"
    words = command("--rows", "c_n2 c_n4", "--text", text)
    failed = call(words, **tools, STAND_IN_FAILS="aiayn_c_n2")
    last = failed.stderr.splitlines()[-1]
    assert failed.returncode == 1
    assert last.startswith("run.sh: stage 2-train: not finished: aiayn-c_n2-1; log: ")
    assert "stage 5-train-aiayn-c_n2-1 failed with status 1: no GPU takes" in failed.stderr
    assert trainings(failed) == ["aiayn-c_n2-1", "aiayn-c_n4-1"]
    table = (exp / "table3.md").read_text()
    assert re.search(r"^\| c_n4 ", table, re.MULTILINE)
    assert not re.search(r"^\| c_n2 ", table, re.MULTILINE)
    assert re.search("Not finished:\n\n- aiayn-c_n2-1: .*settings.json", table)

    finished = files_of(exp / "aiayn-c_n4-1")
    mended = finish(words, **tools)
    assert trainings(mended) == ["aiayn-c_n2-1"]
    assert files_of(exp / "aiayn-c_n4-1") == finished
    table = (exp / "table3.md").read_text()
    assert "Not finished" not in table and re.search(r"^\| c_n2 ", table, re.MULTILINE)


def test_where_every_run_fails_the_table_says_so(text, tools, command, tmp_path):
    words = command("--rows", "c_n2", "--text", text)
    failed = call(words, **tools, STAND_IN_FAILS="aiayn_c_n2")
    assert failed.returncode == 1
    assert "run.sh: stage 2-train: not finished: aiayn-c_n2-1;" in failed.stderr.splitlines()[-1]
    assert "- aiayn-c_n2-1: " in (tmp_path / "exp" / "table3.md").read_text()


def test_rows_that_stock_fairseq_cannot_build_are_left_out(tools, command):
    counted = call(command("--rows", "b_dk16 c_n2", "--system", "both", "--count"), **tools)
    assert counted.stdout == "3 runs: --array 0-2\n"
    assert counted.stderr == "# stock fairseq cannot build row b_dk16: left out\n"


@pytest.mark.parametrize(
    ("rows", "passed", "message"),
    [
        ("c_n2 base c_n2", [], "--rows must differ from each other, got 'c_n2' twice"),
        ("all base", [], "--rows must differ from each other, got 'base' twice"),
        ("c_n2", ["--patience", "3"], "--patience would train each row for another number of"),
        ("c_n2", ["--patience=3"], "--patience would train each row for another number of"),
        ("c_n2", ["--seeds", "2"], "--seeds cannot stand after --: Table 3 sets it for each run"),
        ("c_n2", ["--row=big"], "--row cannot stand after --: Table 3 sets it for each run"),
        ("c_n2", ["--node_rank", "1"], "--node_rank cannot stand after --: on several nodes,"),
    ],
)
def test_what_would_leave_no_table_is_refused(tools, command, rows, passed, message):
    line = refusal(call(command("--rows", rows, passed=passed), **tools))
    assert line.startswith(f"run.sh: {message}")


def test_tasks_of_an_array_train_a_run_each_and_share_the_directory(text, tools, command, tmp_path):
    exp = tmp_path / "exp"
    words = command("--rows", "c_n2 c_n4", "--text", text)
    second = finish(words, **tools, SLURM_ARRAY_TASK_ID="1")
    assert trainings(second) == ["aiayn-c_n4-1"]
    assert not (exp / "table3.md").exists()
    beyond = call(words, **tools, SLURM_ARRAY_TASK_ID="2")
    assert refusal(beyond) == "run.sh: there are 2 runs, none of them is number 2"

    tasks = [
        subprocess.Popen(
            words,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(**tools, SLURM_ARRAY_TASK_ID=number),
        )
        for number in ("0", "1")
    ]
    errors = [task.communicate(timeout=PATIENCE)[1].decode() for task in tasks]
    assert [task.returncode for task in tasks] == [0, 0], errors
    before = files_of(exp / "aiayn-c_n2-1") | files_of(exp / "aiayn-c_n4-1")
    last = call(words, **tools)
    assert (last.returncode, trainings(last)) == (0, []), last.stderr
    assert files_of(exp / "aiayn-c_n2-1") | files_of(exp / "aiayn-c_n4-1") == before
    assert len(json.loads((exp / "table3.json").read_text())["runs"]) == 2


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_of_a_stopped_table_goes_on_beside_the_next(text, tools, command, tmp_path, number):
    words = command("--rows", "c_n2", "--text", text)
    errors, training = tmp_path / "errors", tmp_path / "training"
    first = start(words, errors, **tools, STAND_IN_WAITS=str(training))
    wait_for(training, first, errors)
    first.send_signal(number)
    assert first.wait(timeout=PATIENCE) == (143 if number == signal.SIGTERM else -number)
    left_behind = int(training.read_text())
    assert (session_of(left_behind) is None) == (number == signal.SIGTERM)

    second = finish(words, **tools)
    assert session_of(left_behind) is None
    assert " stage 5-train-aiayn-c_n2-1 goes on" in second.stderr


def test_prepared_text_stays_as_it_is(text, tools, command):
    before = files_of(text)
    result = finish(command("--rows", "c_n2", "--text", text), **tools)
    assert "stage 1-text" not in result.stderr
    assert files_of(text) == before


def test_rows_are_not_done_with_another_text(text, tools, command, tmp_path):
    other = shutil.copytree(text, tmp_path / "other")
    finish(command("--rows", "c_n2", "--text", text), **tools)
    words = command("--rows", "c_n2", "--text", other)
    moved = call(words, **tools)  # the same text elsewhere
    assert (moved.returncode, trainings(moved)) == (0, []), moved.stderr
    assert "stage 2-train is done, skipped" not in moved.stderr
    assert "stage 2-train is done, skipped" in call(words, **tools).stderr
    (other / "bin" / "sha256").write_text("made again\n")
    changed = call(words, **tools)
    assert changed.returncode == 1
    assert f"{other}/bin is not what the recipe made" in changed.stderr


def test_text_that_is_not_prepared_is_named(tools, command, tmp_path):
    result = call(command("--rows", "c_n2", "--text", tmp_path), **tools)
    message = f"{tmp_path} has no prepared text: its recipe makes it with"
    assert result.returncode == 1
    assert f"run.sh: {message} --stage 4 --stop_stage 4 --force\n" in result.stderr


def test_a_dry_run_shows_every_command_of_every_run(command, tmp_path):
    text = dry_run(command("--rows", "c_n2 d_ls0", "--system", "both"))
    assert not (tmp_path / "exp").exists()
    assert len(commands(text, "fairseq-preprocess")) == 1
    trained = commands(text, "fairseq-train")
    assert [Path(value(train, "--save-dir")).parent.name for train in trained] == [
        "aiayn-c_n2-1",
        "aiayn-d_ls0-1",
        "stock-c_n2-1",
        "stock-d_ls0-1",
    ]
    for tool in ("fairseq-validate", "fairseq-generate", "aiayn bleu", "aiayn compare"):
        assert len(commands(text, tool)) == 4
    assert text.splitlines()[-1].startswith("python ")
    assert "aiayn average" not in text


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ((), "20 runs: --array 0-19"),
        (("--rows", "base c_n2", "--seeds", "1 2 3", "--system", "both"), "12 runs: --array 0-11"),
    ],
)
def test_the_size_of_an_array_is_told(command, tmp_path, options, count):
    result = call(command(*options, "--count"))
    assert (result.returncode, result.stdout) == (0, f"{count}\n")
    assert not (tmp_path / "exp").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--rows", "base c_n3"), "--rows must be rows of Table 3, got 'c_n3': they are base a_h1"),
        (("--seeds", ""), "--rows and --seeds must name at least one run"),
        (("--seeds", "1 two"), "--seeds must be whole numbers, got 'two'"),
        (("--corpus", "wmt15"), "--corpus must name a recipe, there is no recipes/wmt15/run.sh"),
    ],
)
def test_wrong_choices_are_one_line(command, options, message):
    assert refusal(call(command(*options, "--count"))).startswith(f"run.sh: {message}")

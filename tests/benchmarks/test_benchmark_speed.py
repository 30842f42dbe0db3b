"""The comparisons in benchmarks/: workers in turns, figures, targets, options."""

import argparse
import json
import sys
import time
from pathlib import Path

import agreement
import generate
import pytest
import scaling
import summary
import train
from comparison import result
from findings import GROWTH, MEMORY, TRAINING, find_target, finding
from patience import PATIENCE
from recipe_runs import alive
from scaling_curves import Curve, Times, Work, curves
from sides import training_sides
from spreads import Spread, number, ratios, spread
from train import update_flops
from training_turns import RowTurns
from workers import Worker, WorkerDied, alternate

from fairseq_aiayn.paper import BASE
from fairseq_aiayn.runs.record import hardware

ROOT = Path(__file__).parents[2]
SCRIPTS = {script.__name__: script for script in (train, generate, scaling, agreement)}
# A worker that answers every order with what it was told and how often it was asked
ECHO = """
import json, sys
for count, line in enumerate(sys.stdin):
    print(json.dumps(json.loads(line) | {"count": count}), flush=True)
"""


def worker(tmp_path: Path, program: str, name: str = "worker") -> Worker:
    return Worker(name, ["-c", program], tmp_path / "logs" / f"{name}.log")


# --- workers ---


def test_workers_are_asked_in_turn_and_the_first_round_does_not_count(tmp_path):
    with worker(tmp_path, ECHO, "one") as one, worker(tmp_path, ECHO, "other") as other:
        answers = alternate([one, other], 3, {"updates": 5}, "echo")
    counted = [{"updates": 5, "count": count} for count in (1, 2, 3)]
    assert answers == {"one": counted, "other": counted}


def test_a_worker_that_dies_is_one_line_with_the_end_of_its_log(tmp_path):
    program = "import sys; sys.exit('first line\\nthe data is not there\\n\\n')"
    with worker(tmp_path, program) as dying, pytest.raises(WorkerDied) as raised:
        dying.answer()
    log = tmp_path / "logs" / "worker.log"
    assert str(raised.value) == (
        f"worker ended with status 1: the data is not there (all of it: {log})"
    )
    assert log.read_text() == "first line\nthe data is not there\n\n\n"


def test_a_worker_that_dies_of_an_order_is_one_line_too(tmp_path):
    with worker(tmp_path, "input(); 1 / 0") as dying:
        with pytest.raises(WorkerDied, match="status 1: ZeroDivisionError: division by zero"):
            dying.ask(updates=1)
        with pytest.raises(WorkerDied, match="status 1: ZeroDivisionError"):
            dying.ask(updates=1)


def test_whatever_a_worker_started_ends_with_it(tmp_path):
    program = (
        "import subprocess, sys\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "print('{}', flush=True)\n"
        "input()"
    )
    with pytest.raises(KeyboardInterrupt), worker(tmp_path, program) as parent:
        parent.answer()
        assert alive(parent.process.pid)
        raise KeyboardInterrupt
    deadline = time.monotonic() + PATIENCE
    while alive(parent.process.pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not alive(parent.process.pid)


# --- figures ---


def test_a_ratio_is_of_values_of_the_same_turn():
    assert ratios([2.0, 9.0, 8.0], [1.0, 3.0, 2.0]) == Spread(3.0, 2.0, 4.0)
    assert spread([3.0, 1.0, 10.0, 2.0]) == Spread(2.5, 1.0, 10.0)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.000123456, "0.000123"),
        (0.5, "0.5"),
        (12.345, "12.3"),
        (1, "1.00"),
        (1234, "1,234"),
    ],
)
def test_numbers_have_three_digits_or_more(value, text):
    assert number(value) == text


def test_a_target_is_for_a_device_a_row_and_a_precision():
    def target(*conditions: str) -> str:
        return str(find_target(TRAINING, *conditions))

    assert target("cpu", "tiny", "float32") == "at least 1.15"
    assert target("cpu", "base", "float32") == "at least 1"
    assert target("cpu", "big", "bfloat16") == "at least 1.5"
    assert target("cuda", "big", "float16") == "at least 2"
    assert target("cuda", "tiny", "bfloat16") == "None"


def test_a_finding_meets_a_target_with_its_median():
    least = find_target(TRAINING, "cpu", "tiny", "float32")
    assert finding("", "", "", Spread(1.15, 1.0, 1.2), least).met is True
    assert finding("", "", "", Spread(1.14, 1.0, 1.2), least).met is False
    most = find_target(MEMORY, "cpu", "base", "float32")
    assert most.met(0.75) and not most.met(0.76)
    assert str(most) == "at most 0.75"
    alone = finding("", "", "", Spread(1.0, 1.0, 1.0))
    assert (alone.target, alone.met) == (None, None)


def test_the_products_are_those_of_the_layers_and_of_the_logits():
    from limits import products  # imports torch

    shapes = products("cpu", 100, d_model=8, d_ff=32, vocabulary=50)
    assert shapes[:-1] == [(100, 8, 8), (100, 8, 32), (100, 32, 8), (100, 8, 50)]
    rows, inner, columns = shapes[-1]
    assert rows == inner == columns


def turn(seconds: float, **others: float) -> dict[str, float]:
    sizes = {"sentences": 4, "source_tokens": 60, "target_tokens": 40, "positions": 125}
    return {"seconds": seconds, "updates": 2, "peak_mib": 100.0} | sizes | others


def test_an_update_needs_six_flops_for_every_weight_and_token_and_the_attention():
    wide, length = 10_000, 10
    none = dict.fromkeys(("source_tokens", "target_tokens"), 0)
    source = update_flops(turn(1) | none | {"source_tokens": 1}, "base", wide)
    target = update_flops(turn(1) | none | {"sentences": 1, "target_tokens": length}, "base", wide)
    weights = 4 * BASE.d_model**2
    feed_forward = 2 * BASE.d_model * BASE.d_ff
    attention = 2 * 2 * BASE.d_model  # QKᵀ and the weighted sum, for each position looked at
    assert source == 6 * BASE.N * (weights + feed_forward) + 3 * BASE.N * attention
    matrices = BASE.N * (2 * weights + feed_forward) + BASE.d_model * wide
    assert target == pytest.approx(
        length * (6 * matrices + 3 * BASE.N * 2 * attention * length), rel=1e-12
    )


def row_turns(device: str, turns: dict[str, list[dict]]) -> RowTurns:
    sides = [side for side in training_sides(device, ["bfloat16"]) if side.name in turns]
    held, starts = dict.fromkeys(turns, 40.0), {name: [10.0] for name in turns}
    limits = {"float32": 1e12, "bfloat16": 2e12}
    return RowTurns("tiny", sides, 1_000, held, starts, turns, limits)


def test_stock_fairseq_counts_in_its_fastest_precision():
    turns = {
        "stock float16": [turn(1.0)],
        "stock bfloat16": [turn(0.8)],
        "ours bfloat16": [turn(0.4)],
    }
    speed, start_up, *_ = train.findings_of(row_turns("cuda", turns))
    assert speed.unit == start_up.unit == "ours ÷ stock bfloat16"
    assert speed.value == Spread(2.0, 2.0, 2.0)


def test_the_share_of_the_ceiling_is_that_of_its_precision():
    measured = row_turns("cpu", {"stock float32": [turn(1)], "ours bfloat16": [turn(1)]})
    stock, ours = (train.shares(measured, side)[0] for side in measured.sides)
    assert stock == pytest.approx(update_flops(turn(1), "tiny", 1_000) / 1e12)
    assert ours == pytest.approx(stock / 2)


def test_a_step_takes_what_the_process_did_not_hold_before_the_model():
    turns = {
        "stock float32": [turn(1, peak_mib=240.0)],
        "ours bfloat16": [turn(1, peak_mib=140.0)],
    }
    *_, step, whole = train.findings_of(row_turns("cpu", turns))
    assert (step.value.median, step.target, step.met) == (0.5, "at most 0.75", True)
    assert whole.value.median == pytest.approx(140 / 240, rel=1e-5)


def test_padding_is_the_share_of_positions_without_a_token():
    assert train.padding(turn(1)) == pytest.approx(0.2)


# --- curves ---


def test_a_growth_is_that_of_ours_over_that_of_the_other():
    curve = Curve("c", "sizes", {1: Work(1, 8, 100), 4: Work(4, 8, 100)})
    seconds = {
        1: {"ours": [2.0, 2.0], "other": [1.0, 1.0]},
        4: {"ours": [6.0, 4.0], "other": [2.0, 2.0]},
    }
    times = Times(curve, seconds)
    assert times.growth("ours") == [3.0, 2.0]
    assert times.growth("other") == [2.0, 2.0]
    assert find_target(GROWTH, "cpu").met(1.1)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_along_a_curve_one_thing_grows(device):
    assert len(curves(device)) == 6
    for curve in curves(device):
        works = list(curve.points.values())
        assert list(curve.points) == sorted(curve.points)
        tokens = {work.sentences * work.length for work in works}
        varied = [len({getattr(w, name) for w in works}) > 1 for name in ("vocabulary", "beam")]
        if curve.title == "training step: sentence length":
            assert len(tokens) == 1 and not any(varied)
        else:
            assert sum([*varied, len(tokens) > 1]) == 1, curve.title


def test_a_dictionary_has_the_types_that_were_asked_for():
    from scaling_worker import dictionary  # imports fairseq

    assert len(dictionary(50)) == 50


# --- scripts ---


@pytest.fixture
def data_like(tmp_path) -> Path:
    """What looks like binarized text as long as nobody opens it."""
    (tmp_path / "train.en-de.en.idx").touch()
    return tmp_path


@pytest.mark.parametrize("name", SCRIPTS)
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (["--row", "huge"], "argument --row: must be of "),
        (["--json", "/no/such/f"], "--json: must be in a directory that exists, got /no/such/f"),
        (["--device", "abacus"], "argument --device: invalid choice: 'abacus'"),
    ],
)
def test_wrong_options_end_with_status_2(name, wrong, message, monkeypatch, capsys, data_like):
    refused(name, wrong, message, monkeypatch, capsys, data_like)


@pytest.mark.parametrize(
    ("name", "wrong", "message"),
    [
        ("train", ["--turns", "0"], "--turns: must be a number from 1 on, got 0"),
        ("train", ["--starts", "many"], "--starts: must be a number from 1 on, got many"),
        ("train", ["--data", "/no/such"], "--data: must have been made by fairseq-preprocess, got"),
        ("train", ["--precision", "float16"], "--precision float16 needs --device cuda"),
        ("generate", ["--checkpoints", "a", "b"], "--checkpoints: must be a file, got a"),
        ("scaling", ["--points", "-1"], "--points: must be a number from 1 on, got -1"),
        ("scaling", ["--png", "/no/such/f"], "--png: must be in a directory that exists"),
    ],
)
def test_wrong_options_of_a_script_end_with_status_2(
    name, wrong, message, monkeypatch, capsys, data_like
):
    refused(name, wrong, message, monkeypatch, capsys, data_like)


def refused(name, wrong, message, monkeypatch, capsys, data) -> None:
    here = [] if name == "scaling" or "--data" in wrong else ["--data", str(data)]
    monkeypatch.setattr(sys, "argv", [f"{name}.py", *here, *wrong])
    with pytest.raises(SystemExit) as raised:
        SCRIPTS[name].main()
    assert raised.value.code == 2
    last = capsys.readouterr().err.strip().rpartition("\n")[2]
    assert last.startswith(f"{name}.py: error: ") and message in last


def test_a_row_that_stock_fairseq_has_not_is_one_line(tmp_path, monkeypatch, data_like):
    line = ["train.py", "--row", "b_dk16", "--data", str(data_like), "--work", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", line)
    with pytest.raises(SystemExit, match="^train: row b_dk16 has d_k 16"):
        train.main()


def test_results_have_no_folders_of_this_machine(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", [str(ROOT / "benchmarks" / "train.py"), str(tmp_path / "x")])
    paths = {"data": ROOT / "exp" / "bin", "checkpoints": [tmp_path / "y"]}
    arguments = argparse.Namespace(**paths)
    value = finding(TRAINING, "tiny", "", Spread(1, 1, 1))
    text = result(arguments, [0.1], [value], {"rows": []})
    content = json.loads(text)
    assert str(tmp_path) not in text and str(ROOT) not in text
    assert content["command"] == "benchmarks/train.py x"
    assert content["options"]["data"] == "exp/bin"
    assert {"machine", "packages", "commit", "load_average", "written"} < content.keys()


def test_the_summary_has_the_findings_of_all_files_that_are_there(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["summary.py", str(tmp_path)])
    with pytest.raises(SystemExit, match="must have one of train.json, generate.json"):
        summary.main()
    for name, median in (("train", 1.2), ("scaling", 0.9)):
        target = find_target(TRAINING, "cpu", "tiny", "float32")
        found = finding(TRAINING, name, "", Spread(median, 0.8, 1.3), target)
        (tmp_path / f"{name}.json").write_text(result(argparse.Namespace(), [0.1], [found], {}))
    summary.main()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{hardware()['processor']}, {hardware()['cores']} cores"
    assert [line.split()[-1] for line in lines[2:4]] == ["met", "missed"]
    assert lines[-1] == "1 of 2 targets met"
    (tmp_path / "train.json").write_text("[]")
    with pytest.raises(SystemExit, match="train.json: must be a comparison's results"):
        summary.main()

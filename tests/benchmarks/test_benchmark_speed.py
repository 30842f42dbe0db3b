"""The comparisons in benchmarks/: workers in turns, figures, targets, options, kept models."""

import argparse
import json
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

import generate
import memory
import scaling
import summary
import train
import trained_models
from limits import BANDWIDTH, ceiling, products
from recipe_runs import alive
from scaling_curves import Curve, Times, Work, curves, write_dictionaries
from side_by_side import Spread, finding, number, ratios, result, spread
from sides import Side, ours, rivals
from targets import GROWTH, MEMORY, TRAINING, find_target
from training_turns import RowTurns, update_flops
from workers import Worker, WorkerDied, alternate

from fairseq_aiayn.paper import BASE

SCRIPTS = {script.__name__: script for script in (train, generate, memory, scaling)}
# A worker that answers every order with what it was told and how often it was asked
ECHO = """
import json, sys
for count, line in enumerate(sys.stdin):
    print(json.dumps(json.loads(line) | {"count": count}), flush=True)
"""


def worker(tmp_path: Path, program: str, name: str = "worker") -> Worker:
    return Worker(name, ["-c", program], tmp_path / "logs" / f"{name}.log", {})


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


def test_a_worker_without_orders_may_print_more_than_a_pipe_holds(tmp_path):
    with worker(tmp_path, "print('x' * 1_000_000)") as talking:
        talking.wait()
    program = "print('x' * 1_000_000); 1 / 0"
    with worker(tmp_path, program) as failing, pytest.raises(WorkerDied, match="ZeroDivision"):
        failing.wait()


def test_whatever_a_worker_started_ends_with_it(tmp_path):
    program = (
        "import subprocess, sys\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "print('{}', flush=True)\n"
        "input()"
    )
    with pytest.raises(KeyboardInterrupt), worker(tmp_path, program) as parent:
        parent.answer()
        assert alive(parent.pid)
        raise KeyboardInterrupt
    deadline = time.monotonic() + 20
    while alive(parent.pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not alive(parent.pid)


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


def options(**others: object) -> argparse.Namespace:
    return argparse.Namespace(**{"against": "stock", "device": "cpu"} | others)


def test_a_finding_has_the_target_of_its_device_row_and_precision():
    value = Spread(1.1, 1.0, 1.2)
    tiny = finding(TRAINING, "", "", value, options(), "tiny", "float32")
    base = finding(TRAINING, "", "", value, options(), "base", "float32")
    assert (tiny.target, tiny.met) == ("at least 1.15", False)
    assert (base.target, base.met) == ("at least 1", True)
    gpu = finding(TRAINING, "", "", value, options(device="cuda"), "big", "bfloat16")
    assert (gpu.target, gpu.met) == ("at least 2", False)
    other = finding(TRAINING, "", "", value, options(device="cuda"), "tiny", "bfloat16")
    assert (other.target, other.met) == (None, None)


def test_a_bound_from_above_is_met_below_it():
    target = find_target(MEMORY, "cpu", "base", "float32")
    assert target.met(0.75) and not target.met(0.76)
    assert str(target) == "at most 0.75"


def test_against_another_checkout_there_is_no_target():
    against = options(against="../before")
    assert finding(TRAINING, "", "", Spread(1, 1, 1), against, "tiny", "float32").target is None


def test_the_ceiling_of_a_precision_is_its_best_product_of_any_turn():
    first = {"float32 1 × 2 × 3": 10.0, "float32 4 × 5 × 6": 12.0, BANDWIDTH: 7.0}
    second = {"float32 1 × 2 × 3": 11.0, "float32 4 × 5 × 6": 9.0, BANDWIDTH: 8.0}
    assert ceiling([first, second]) == {"float32": 12.0, BANDWIDTH: 8.0}


def test_the_products_are_those_of_the_layers_and_of_the_logits():
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


def row_turns(turns: dict[str, list[dict]], rival_sides: list[Side]) -> RowTurns:
    none = dict.fromkeys(turns, 40.0)
    starts = {name: [10.0] for name in turns}
    limits = {"float32": 1e12, "bfloat16": 2e12, BANDWIDTH: 1e10}
    return RowTurns("tiny", ours(["bfloat16"]), rival_sides, 1_000, none, starts, turns, limits)


def test_stock_fairseq_counts_in_its_fastest_precision():
    turns = {
        "stock float16": [turn(1.0)],
        "stock bfloat16": [turn(0.8)],
        "ours bfloat16": [turn(0.4)],
    }
    measured = row_turns(turns, rivals("stock", "cuda", ["bfloat16"]))
    found = train.findings_of(measured, options(device="cuda"))
    assert found[0].unit == "ours ÷ stock bfloat16"
    assert found[0].value == Spread(2.0, 2.0, 2.0)


def test_another_checkout_counts_in_the_same_precision():
    others = rivals("/elsewhere/before", "cpu", ["float32", "bfloat16"])
    turns = {side.name: [turn(1.0)] for side in (*others, *ours(["bfloat16"]))}
    assert row_turns(turns, others).rival(ours(["bfloat16"])[0]).name == "before bfloat16"


def test_a_step_takes_what_the_process_did_not_hold_before_the_model():
    turns = {
        "stock float32": [turn(1, peak_mib=240.0)],
        "ours bfloat16": [turn(1, peak_mib=140.0)],
    }
    measured = row_turns(turns, rivals("stock", "cpu", ["bfloat16"]))
    step, whole = memory.findings_of(measured, options())
    assert (step.value.median, step.target, step.met) == (0.5, "at most 0.75", True)
    assert whole.value.median == pytest.approx(140 / 240, rel=1e-5)


def test_padding_is_the_share_of_positions_without_a_token():
    measured = row_turns({"stock float32": [turn(1)]}, rivals("stock", "cpu", ["float32"]))
    assert measured.values(measured.rivals[0], "padding") == [pytest.approx(0.2)]


# --- curves ---


def test_a_growth_is_that_of_ours_over_that_of_the_other():
    curve = Curve("c", "sizes", {1: Work(1, 8, 100), 4: Work(4, 8, 100)})
    times = Times(curve, {})
    for size, own, other in ((4, [6.0, 4.0], [2.0, 2.0]), (1, [2.0, 2.0], [1.0, 1.0])):
        times.add(
            size, {"ours": [{"seconds": s} for s in own], "other": [{"seconds": s} for s in other]}
        )
    assert times.growth("ours") == [3.0, 2.0]
    assert times.growth_ratio("ours", "other") == Spread(1.25, 1.0, 1.5)
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


def test_dictionaries_have_the_types_that_were_asked_for(tmp_path):
    from fairseq.data import Dictionary

    write_dictionaries(tmp_path, 50)
    assert len(Dictionary.load(str(tmp_path / "50" / "dict.de.txt"))) == 50


# --- kept models ---


@pytest.fixture
def model_options(tmp_path) -> argparse.Namespace:
    data = tmp_path / "data"
    data.mkdir()
    (data / "train.en-de.de.bin").write_text("text")
    (data / "dict.de.txt").write_text("w 1\n")
    values = {"row": "tiny", "train_updates": 3, "seed": 1, "data": data, "work": tmp_path}
    return options(**values)


def test_a_model_is_trained_once_and_an_unfinished_training_is_none(
    tmp_path, model_options, monkeypatch
):
    def stop(*_):
        raise WorkerDied("no room")

    class Training:
        def __init__(self, name, line, log, environment):
            part = Path(line[line.index("--save-dir") + 1])
            assert not part.exists()
            part.mkdir(parents=True)
            (part / "checkpoint_last.pt").write_text("weights")
            trained.append(part.name)

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def answer(self):
            return {}

    trained = []
    (side,) = ours(["float32"])
    monkeypatch.setattr(trained_models, "Worker", Training)
    monkeypatch.setattr(Training, "answer", stop)
    with pytest.raises(WorkerDied):
        trained_models.find_model(side, model_options)
    monkeypatch.setattr(Training, "answer", lambda self: {})
    checkpoint = trained_models.find_model(side, model_options)
    assert checkpoint.read_text() == "weights"
    assert trained == [f"{checkpoint.parent.name}.part"] * 2
    assert trained_models.find_model(side, model_options) == checkpoint
    assert len(trained) == 2


def test_another_model_has_another_key(model_options):
    def key() -> str:
        command = trained_models.training_command(side, model_options)
        return trained_models.key(side, command, model_options.data)

    (side,) = ours(["float32"])
    keys = [key(), key()]
    assert keys[0] == keys[1]
    for name, value in (("train_updates", 4), ("seed", 2), ("row", "base")):
        setattr(model_options, name, value)
        keys.append(key())
    (model_options.data / "train.en-de.de.bin").write_text("other text")
    keys.append(key())
    side = rivals("stock", "cpu", ["float32"])[0]
    keys.append(key())
    assert len(set(keys)) == len(keys) - 1


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
        (["--turns", "0"], "--turns must be at least 1, got 0"),
        (["--row", "huge"], "; got huge"),
        (["--against", "/no/such"], "--against must be stock or a checkout, got /no/such"),
        (["--json", "/no/such/f"], "--json must be in a directory that exists, got /no/such/f"),
        (["--device", "abacus"], "argument --device: invalid choice: 'abacus'"),
    ],
)
def test_wrong_options_end_with_status_2(name, wrong, message, monkeypatch, capsys, data_like):
    refused(name, wrong, message, monkeypatch, capsys, data_like)


@pytest.mark.parametrize(
    ("name", "wrong", "message"),
    [
        ("train", ["--updates", "0"], "--updates must be at least 1, got 0"),
        ("train", ["--data", "/no/such"], "--data must have been made by fairseq-preprocess, got"),
        ("memory", ["--precision", "float16"], "--precision float16 needs --device cuda"),
        ("generate", ["--checkpoints", "a", "b"], "--checkpoints must be files, got a"),
        ("scaling", ["--points", "-1"], "--points must be at least 1, got -1"),
        ("scaling", ["--png", "/no/such/f"], "--png must be in a directory that exists"),
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
    with pytest.raises(SystemExit, match="^train: aiayn flags: row b_dk16 has d_k 16"):
        train.main()


def test_results_have_no_folders_of_this_machine(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", [str(ROOT / "benchmarks" / "train.py"), str(tmp_path / "x")])
    arguments = options(data=ROOT / "exp" / "bin", checkpoints=[tmp_path / "y"])
    value = finding(TRAINING, "tiny", "", Spread(1, 1, 1), arguments, "tiny", "float32")
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
    for name, median in (("train", 1.2), ("memory", 0.9)):
        found = finding(TRAINING, name, "", Spread(median, 0.8, 1.3), options(), "tiny", "float32")
        (tmp_path / f"{name}.json").write_text(result(options(), [0.1], [found], {}))
    summary.main()
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[-1] for line in lines[1:3]] == ["met", "missed"]
    assert lines[-1] == "1 of 2 targets met"
    (tmp_path / "train.json").write_text("[]")
    with pytest.raises(SystemExit, match="train.json: must be a comparison's results"):
        summary.main()


def test_flags_of_another_checkout_are_its_own(tmp_path, monkeypatch):
    """Breaks where this checkout, from whose root benchmarks are started, is found before it."""
    package = tmp_path / "fairseq_aiayn" / "cli"
    package.mkdir(parents=True)
    for folder in (package.parent, package):
        (folder / "__init__.py").touch()
    (package / "main.py").write_text("print('--of another')\n")
    monkeypatch.chdir(ROOT)
    side = Side("another", "aiayn", "float32", tmp_path)
    assert side.regime("tiny", 64, 1, 1) == ["--of", "another"]

"""The benchmark: workers in turn, ratios with quartiles, all parts on a few sentences."""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import bench
import fork_server
import pytest
import sides
import workers
from figures import Figure, Spread, number, ratio, side_by_side, spread, table
from mirrors import invented_pairs
from patience import PATIENCE
from recipe_runs import alive
from workers import Worker

ROOT = Path(__file__).parents[2]


def worker(tmp_path: Path, program: str) -> Worker:
    return Worker("worker", ["-c", program], tmp_path / "worker.log")


def test_a_worker_that_dies_is_one_line_with_the_end_of_its_log(tmp_path):
    program = "import sys; sys.exit('first line\\nthe data is not there\\n\\n')"
    with worker(tmp_path, program) as dying, pytest.raises(ChildProcessError) as raised:
        dying.answer()
    assert str(raised.value) == (
        f"worker ended with status 1: the data is not there (all of it: {tmp_path / 'worker.log'})"
    )
    with worker(tmp_path, "input(); 1 / 0") as dying:
        for _ in range(2):
            with pytest.raises(ChildProcessError, match="status 1: ZeroDivisionError"):
                dying.ask(batch=1)


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
    while alive(parent.process.pid):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_stock_fairseq_launches_as_it_does_without_us(tmp_path, monkeypatch):
    monkeypatch.delenv("AIAYN_REPAIRS", raising=False)
    program = "import json, os; print(json.dumps({'left out': os.environ.get('AIAYN_REPAIRS')}))"
    for name, left_out in (("stock bfloat16", "launches"), ("ours bfloat16", None)):
        with Worker(name, ["-c", program], tmp_path / "log") as one:
            assert one.answer() == {"left out": left_out}


def test_a_ratio_is_of_values_of_the_same_turn_and_says_when_it_is_unsteady():
    assert spread([3.0, 1.0, 10.0, 2.0, 4.0]) == Spread(3.0, 2.0, 4.0, 5)
    noisy = ratio("speed", "tiny", ("ours", "stock"), [2.0, 9.0, 8.0], [1.0, 3.0, 2.0])
    assert (noisy.unit, noisy.value) == ("ours ÷ stock", Spread(3.0, 2.5, 3.5, 3))
    three = [sides.Side(*each, "cpu") for each in (("stock", "a"), ("ours", "a"), ("ours", "b"))]
    values = {"stock a": [2.0, 4.0], "ours a": [4.0, 8.0], "ours b": [6.0, 12.0]}
    found = bench.beside_stock("speed", "tiny", three, values)
    units = {each.unit: each.value.median for each in found}
    assert units == {"ours a ÷ stock a": 2.0, "ours b ÷ stock a": 3.0}
    steady = Figure("speed", "base", "", Spread(1.0, 0.98, 1.02, 9))
    _, first, second, _, note = table([noisy, steady]).split("\n")
    assert first.split()[-2:] == ["3", "unsteady"] and second.split()[-1] == "9"
    assert note.startswith("1 of 2 are unsteady")
    assert "unsteady" not in table([steady])
    shown = [number(value) for value in (0.000123456, 0.5, 12.345, 1, 1234)]
    assert shown == ["0.000123", "0.5", "12.3", "1.00", "1,234"]


def test_on_a_gpu_each_precision_is_compared_with_the_same_of_stock_fairseq(tmp_path, monkeypatch):
    """Breaks, too, if both make and delete fairseq's `dummy` in one --save-dir."""
    groups = sides.training_groups("cuda")
    on_gpu = [[side.name for side in group] for group in groups]
    assert on_gpu == [[f"stock {p}", f"ours {p}"] for p in ("float32", "float16", "bfloat16")]
    monkeypatch.setattr(bench, "start", lambda name, program, words, arguments: words)
    options = argparse.Namespace(work=tmp_path, data=tmp_path, max_tokens=64)
    for group in groups:
        commands = [bench.trainer(side, "tiny", options) for side in group]
        assert len({words[words.index("--save-dir") + 1] for words in commands}) == len(group)


def test_a_second_benchmark_in_a_folder_is_refused(tmp_path, monkeypatch):
    (tmp_path / "train.en-de.en.idx").touch()
    words = ["bench.py", "--data", tmp_path, "--work", tmp_path]
    monkeypatch.setattr(sys, "argv", [*map(str, words)])
    hold = f"f = open({str(tmp_path / '.lock')!r}, 'w'); os.lockf(f.fileno(), os.F_LOCK, 0)"
    with worker(tmp_path, f"import os\n{hold}\nprint('{{}}', flush=True)\ninput()") as other:
        other.answer()
        with pytest.raises(SystemExit, match="bench: .*: another benchmark works there"):
            bench.main()


def prepared(folder: Path) -> Path:
    for seed, (split, sentences) in enumerate((("train", 80), ("valid", 16), ("test", 6))):
        for language, lines in zip(("en", "de"), invented_pairs(sentences, seed), strict=True):
            (folder / f"{split}.{language}").write_text("\n".join(lines) + "\n")
    prefixes = [f"--{split}pref={folder / split}" for split in ("train", "valid", "test")]
    program = fork_server.programs() / "fairseq-preprocess"
    command = [program, "-s", "en", "-t", "de", *prefixes, "--joined-dictionary"]
    subprocess.run([*command, "--destdir", folder / "bin"], check=True, capture_output=True)
    return folder / "bin"


@pytest.mark.needs_repairs
def test_all_parts_are_measured(tmp_path, monkeypatch, capsys):
    """With the shortest turns, and workers as forks."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setattr(sys, "executable", str(fork_server.programs() / "python"))
    monkeypatch.setattr(bench, "SHORT_TRAINING", bench.SHORT_TRAINING | {"updates": 2})
    monkeypatch.setattr(workers, "FEWEST", 2)
    for has_bfloat16, count in ((True, 3), (False, 2)):
        monkeypatch.setattr(sides, "HAS_BFLOAT16", has_bfloat16)
        assert len(sides.training_groups("cpu")[0]) == len(sides.translating_sides("cpu")) == count
    monkeypatch.setattr(bench, "SHAPES", [(8, 8, 8)])
    monkeypatch.setattr(bench, "FIRST_COMMANDS", bench.FIRST_COMMANDS[:2])
    for name, value in {"LENGTH": 3, "STARTS": 2, "FIRST_TIMES": 2}.items():
        monkeypatch.setattr(bench, name, value)
    monkeypatch.setitem(bench.REGIMES, "tiny", bench.Regime(64, 1, 1))
    result, data = tmp_path / "results" / "bench.json", prepared(tmp_path)
    line = ["bench.py", "--data", data, "--work", tmp_path / "work", "--json", result]
    line += ["--row", "tiny", "--seconds", 0]
    monkeypatch.setattr(sys, "argv", [*map(str, line)])
    bench.main()
    found = json.loads(result.read_text())
    assert {"machine", "packages", "commit", "load_average", "written"} < found.keys()
    assert str(tmp_path) not in json.dumps(found)
    names = ["stock float32", "ours float32", "CTranslate2 float32"]
    shares = [each for each in found["found"] if each["name"] == "training, products ÷ update"]
    assert [each["unit"] for each in shares] == names[:2]
    assert all(0 < each["value"]["median"] < 1 for each in shares)
    of_training, of_translating = (found["measured"][part] for part in ("training", "translating"))
    for values in of_training.values():
        assert [len(values[name]) for name in names[:-1]] == [2, 2]
        assert all(value > 0 for name in names[:-1] for value in values[name])
    assert list(of_training) == ["tiny, float32, tokens/s", "tiny, float32, peak memory of a step"]
    assert list(of_translating["sentences/s"]) == names
    figures = {(each["name"], each["unit"]): each["value"] for each in found["found"]}
    beside = "ours float32 ÷ stock float32", "ours float32 ÷ CTranslate2 float32"
    assert figures["training, tokens/s", beside[0]]["count"] == 2
    assert 0.2 < figures["training, peak memory of a step", beside[0]]["median"]
    assert all(figures["translating, sentences/s", each]["lower"] > 0 for each in beside)
    assert figures["seconds to the first update", beside[0]]["count"] == 2
    assert figures["aiayn rows", "s"]["median"] > 0
    assert beside[1] in capsys.readouterr().out


def test_the_page_has_the_table_of_the_result_file(tmp_path):
    """Breaks if a figure of the page comes from elsewhere, or a quartile stands for the median."""
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    results = ROOT / "benchmarks" / "results"
    assert side_by_side([results / f"zen{k}.json" for k in (5, 4, 3)]) in page
    value = {"median": 1.25, "lower": 1.2, "upper": 1.3, "count": 5}
    figure = {"name": "tokens/s", "subject": "tiny", "unit": "ours ÷ stock", "value": value}
    file = tmp_path / "bench.json"
    file.write_text(json.dumps({"found": [figure]}))
    last = side_by_side([file]).splitlines()[-1]
    assert last == "| tokens/s, tiny, ours ÷ stock | 1.25 (1.20–1.30) |"

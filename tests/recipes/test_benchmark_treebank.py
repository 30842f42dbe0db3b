"""benchmarks/treebank.py: its generated trees and predictions, and what it measures of them."""

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

import treebank
from recipe_cost import session_memory
from synthetic_trees import LONGEST, RULES, SIZES, damage, predict, predictions, rules_for, trees
from treebank import Cost, Run, report, verdict

from fairseq_aiayn.treebank.linearization import delinearize, linearize
from fairseq_aiayn.treebank.normalization import normalize
from fairseq_aiayn.treebank.reader import parse_trees
from fairseq_aiayn.treebank.repair import repair
from fairseq_aiayn.treebank.trees import words_of, write_tree

COUNT = 1_500


@pytest.fixture(scope="module")
def written() -> list[str]:
    return list(trees(1, COUNT))


@pytest.fixture(scope="module")
def read(written):
    """The trees as they are read, without traces and function tags."""
    lines = "".join(written).encode().splitlines(keepends=True)
    return [normalize(tree) for tree in parse_trees(lines, "generated")]


# --- the trees ---


def test_the_trees_are_those_of_their_seed_and_fewer_are_the_start_of_more(written):
    assert list(trees(1, 50)) == written[:50]
    assert list(trees(2, 50)) != written[:50]
    assert len(set(written)) > 0.99 * COUNT


def test_each_is_a_tree_that_comes_back_from_its_sequence(written, read):
    assert len(read) == COUNT
    for tree in read:
        words = [word.form for word in words_of(tree)]
        assert delinearize(linearize(tree, "pos"), words) == tree


def test_trees_have_the_sizes_of_the_wsj_on_average_and_vary_as_they_do(written, read):
    words = [len(words_of(tree)) for tree in read]
    brackets = [write_tree(tree).count("(") for tree in read]
    assert 22 < np.mean(words) < 24.5
    assert 43.5 < np.mean(brackets) < 48
    assert 10 < np.std(words) < 14
    assert min(words) < 5 and 60 < max(words) <= LONGEST
    assert 650 < np.mean([len(text) for text in written]) < 850  # the WSJ: 700 bytes
    assert 16 < np.mean([text.count("\n") for text in written]) < 26  # the WSJ: 24 lines


def test_labels_and_tags_are_about_as_frequent_as_in_the_wsj(read):
    symbols = Counter(symbol for tree in read for symbol in linearize(tree, "pos"))
    labels = {name[1:]: count for name, count in symbols.items() if name[0] == "("}
    tags = {name: count for name, count in symbols.items() if name[0] not in "()"}
    for counts, shares in (
        (labels, {"NP": 0.42, "VP": 0.20, "S": 0.13, "PP": 0.13, "SBAR": 0.04}),
        (tags, {"NN": 0.14, "IN": 0.11, "NNP": 0.10, "DT": 0.09, ",": 0.05, ".": 0.04, "CD": 0.04}),
    ):
        for name, share in shares.items():
            assert counts[name] / sum(counts.values()) == pytest.approx(share, rel=0.25), name


def test_trees_have_function_tags_and_traces_to_take_off(written):
    text = "".join(written)
    for mark in ("(NP-SBJ (-NONE- *", "(NP-SBJ (", " (-NONE- *T*-1)", "(-LRB- -LRB-)", "\\/2)"):
        assert mark in text, mark
    assert 1 < text.count("-NONE-") / COUNT < 4  # the WSJ: 1.7


def test_some_rule_has_every_number_of_words_between_the_fewest_and_the_most():
    for label in RULES:
        fewest, most = SIZES[label]
        for length in range(fewest, most + 1):
            rules, weights = rules_for(label, length)
            assert rules and weights[-1] > 0, (label, length)
    assert SIZES["NP"] == SIZES["VP"] == (1, LONGEST)
    assert SIZES["QP"] == (2, 4)


# --- the predictions ---


def test_a_prediction_is_another_tree_over_the_same_words(read):
    rng = random.Random(1)
    changed = 0
    for tree in read[:500]:
        symbols = linearize(tree, "pos")
        words = [word.form for word in words_of(tree)]
        changed += delinearize(predict(symbols, rng), words) != tree
    assert 350 < changed < 500


def test_damage_leaves_no_tree(read):
    rng = random.Random(1)
    found = Counter()
    for tree in read[:500]:
        words = [word.form for word in words_of(tree)]
        repaired = repair(damage(linearize(tree, "pos"), rng), words)
        assert not repaired.well_formed
        found.update(repaired.repairs)
    assert len(found) >= 5  # kinds of repairs


def test_the_stated_share_of_predictions_is_damaged(read):
    lines = [" ".join(linearize(tree, "pos")) + "\n" for tree in read]
    for damaged in (0, 10, 100):
        sequences = predictions(lines, 1, damaged)
        spoilt = sum(
            not repair(line.split(), [word.form for word in words_of(tree)]).well_formed
            for line, tree in zip(sequences, read, strict=True)
        )
        assert 100 * spoilt / COUNT == pytest.approx(damaged, abs=2)
    first, again = (list(islice(predictions(lines, 3, 10), 20)) for _ in range(2))
    assert first == again != list(islice(predictions(lines, 4, 10), 20))


# --- the measurement ---


def test_a_command_is_measured_by_itself_on_one_core(tmp_path):
    held = bytearray(150 << 20)
    cost = treebank.aiayn(["--help"], tmp_path / "help")
    assert "linearize" in (tmp_path / "help").read_text()
    assert 5 < cost.peak_mib < 100 < len(held) / 2**20
    assert 0 < cost.cpu_seconds and 0 < cost.seconds
    core = min(os.sched_getaffinity(0))
    show = [sys.executable, "-c", "import os; print(os.sched_getaffinity(0))"]
    program = [sys.executable, "-c", treebank.MEASURE, str(core), *show]
    done = subprocess.run(program, capture_output=True, text=True, check=True)
    assert done.stdout == f"{{{core}}}\n"


def test_a_command_that_fails_is_an_error(tmp_path):
    with pytest.raises(OSError, match="aiayn evalb ended with status 2: aiayn evalb: .*/gold: No"):
        treebank.aiayn(["evalb", tmp_path / "gold", tmp_path / "other"], tmp_path / "score")


def wait_until(condition) -> None:
    deadline = time.monotonic() + 20
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)


def test_an_interrupted_measurement_ends_the_command(tmp_path, monkeypatch):
    def interrupt(process):
        wait_until(lambda: session_memory(process.pid) > 15 * 2**20)
        sessions.append(process.pid)
        raise KeyboardInterrupt

    sessions: list[int] = []
    os.mkfifo(tmp_path / "trees")  # nobody writes to it
    monkeypatch.setattr(subprocess.Popen, "communicate", interrupt)
    with pytest.raises(KeyboardInterrupt):
        treebank.aiayn(["linearize", tmp_path / "trees"], tmp_path / "sequences")
    wait_until(lambda: session_memory(sessions[0]) == 0)
    assert session_memory(sessions[0]) == 0


def test_the_whole_benchmark_in_small(tmp_path, monkeypatch, capsys):
    scratch, bank, output = (tmp_path / name for name in ("scratch", "bank", "treebank.json"))
    scratch.mkdir()
    bank.mkdir()
    (bank / "a.mrg").write_text("".join(trees(5, 40)))
    monkeypatch.setattr(treebank.tempfile, "tempdir", str(scratch))
    options = ["--trees", "1000", "--repeats", "1", "--treebank", bank, "--json", output]
    monkeypatch.setattr(sys, "argv", ["treebank.py", *map(str, options)])
    treebank.main()
    assert not any(scratch.iterdir())
    found = json.loads(output.read_text())
    runs = found["runs"]
    assert {name: run["trees"] for name, run in runs.items()} == {
        "smaller": 100,
        "larger": 1000,
        "treebank": 120,  # 40 trees three times
    }
    for run in runs.values():
        assert run["restored"] == 1
        assert 0.8 <= run["well_formed"] <= 0.97
        assert 88 < run["f1"] < 96
        assert list(run["costs"]) == list(found["found"]) == list(treebank.TARGETS)
    assert runs["larger"]["words"] == pytest.approx(23, abs=2)
    assert found["options"] == {"trees": 1000, "seed": 1, "damaged": 10, "repeats": 1}
    assert {"machine", "packages", "commit", "load_average", "written"} < found.keys()
    assert str(tmp_path) not in output.read_text()
    printed = capsys.readouterr()
    assert "1,000 trees (larger) of " in printed.out
    assert "aiayn evalb: " in printed.err


def made_up(trees: int, seconds: float, peak_mib: float) -> Run:
    cost = Cost(seconds, seconds / 2, peak_mib)
    return Run(trees, 23, 45, 1, 0.9, 92, dict.fromkeys(treebank.TARGETS, cost))


def test_the_verdict_is_about_all_trees_and_how_memory_grew():
    runs = {"smaller": made_up(10_000, 9, 20), "larger": made_up(100_000, 25, 23)}
    assert verdict(runs)["linearize"] == {
        "sentences_per_second": 4000,
        "fast_enough": False,
        "sentences_per_cpu_second": 8000,
        "fast_enough_by_cpu_time": True,
        "memory_growth": 1.15,
        "memory_constant": False,
    }
    assert verdict(runs)["evalb"]["fast_enough"]
    assert report(runs).splitlines()[-1] == (
        "evalb: 2,000 sentences/s met, of CPU time met; memory grew 1.15 times, at most 1.1 missed"
    )


def test_repeated_runs_count_with_the_median_of_each_figure():
    runs = [made_up(10, 1, 30), made_up(10, 9, 20), made_up(10, 2, 10)]
    assert treebank.median(runs) == made_up(10, 2, 20)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--trees", "10"], "--trees must be at least 1,000, got 10"),
        (["--repeats", "0"], "--repeats must be at least 1, got 0"),
        (["--damaged", "101"], "--damaged must be from 0 to 100, got 101"),
        (["--json", "/no/such/f"], "--json must be in a directory that exists, got /no/such/f"),
    ],
)
def test_wrong_options_are_refused(options, message, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["treebank.py", *options])
    with pytest.raises(SystemExit):
        treebank.main()
    assert message in capsys.readouterr().err

"""Whole runs of recipes/wsj_parsing, from an invented treebank to F1."""

import gzip
import json
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import treebanks
from fairseq.data.indexed_dataset import MMapIndexedDataset
from patience import PATIENCE
from recipe_runs import (
    RECIPES,
    call,
    files_of,
    finish,
    kill_session,
    lines_of,
    session_of,
    stages_run,
    start,
    wait_for,
    with_holds,
)

from fairseq_aiayn.paper import TABLE_4

RECIPE = RECIPES / "wsj_parsing"
SILVER = 30
RUNS = ("aiayn-parsing_tiny-1", "stock-parsing_tiny-1")
OURS = RUNS[0]
TEXT_STAGES = ["0-set_up", "2-lists", "2-trees", "3-vocabularies", "3-apply", "4-binarize"]
SHORT = (
    *("--max_update", "6", "--interval", "2", "--average", "2", "--batch_tokens", "1536"),
    *("--vocabulary", "200", "--device", "cpu", "--workers", "1", "--needs_mb", "1"),
    # Of both systems; untrained, they end no tree before the longest that is allowed.
    *("--train_options", "--encoder-layers 1 --decoder-layers 1 --max-target-positions 80"),
)


@dataclass(frozen=True)
class Trees:
    """An invented treebank, and trees that are called automatically parsed."""

    wsj: Path
    silver: Path

    def command(self, exp: Path, *options: object) -> list[str]:
        """Return the command of the recipe."""
        own = ("--exp", exp, "--treebank", self.wsj, *SHORT, *options)
        return [str(word) for word in (RECIPE / "run.sh", *own)]


@dataclass(frozen=True)
class Whole:
    """A recipe that ran from trees to scores of both systems, killed in between."""

    exp: Path
    words: list[str]  # the command
    killed: str  # what it said until it was killed in the first training
    result: subprocess.CompletedProcess  # of the same command again


@pytest.fixture(scope="module")
def trees(tmp_path_factory) -> Trees:
    directory = tmp_path_factory.mktemp("trees")
    silver = directory / "silver.gz"
    silver.write_bytes(gzip.compress(treebanks.invented_text(SILVER, 99).encode()))
    return Trees(treebanks.write_treebank(directory / "wsj"), silver)


@pytest.fixture(scope="module")
def whole(trees, tmp_path_factory) -> Iterator[Whole]:
    directory = tmp_path_factory.mktemp("whole")
    exp, errors = directory / "exp", directory / "errors"
    options = ("--silver", trees.silver, "--gold_copies", 2, "--system", "both")
    words = trees.command(exp, *options)
    holds = with_holds(directory / "holds")
    process = start(words, errors, **holds, HELD=f"5-train-{OURS}")
    wait_for(exp / OURS / "checkpoints" / "checkpoint_1_2.pt", process, errors)
    kill_session(process)
    yield Whole(exp, words, errors.read_text(), call(words))
    shutil.rmtree(directory)  # half a gigabyte


def stages_of(run: str) -> list[str]:
    """List the stages of a run without a choice of dropout."""
    return [f"5-train-{run}", f"6-average-{run}", f"10-parse-{run}-test", f"11-score-{run}-test"]


def content(path: Path) -> dict:
    return json.loads(path.read_text())


# --- with fairseq ---


def test_trees_end_as_f1_of_both_systems_below_table_4(whole):
    assert whole.result.returncode == 0, whole.result.stderr
    made = [stage for run in RUNS for stage in stages_of(run)]
    assert stages_run(whole.killed) == [*TEXT_STAGES, made[0]]
    assert stages_run(whole.result.stderr) == [*made, "12-table"]
    table = (whole.exp / "table" / "table.md").read_text()
    for row in TABLE_4:
        assert re.search(rf"^\| {re.escape(row.parser)} .* {row.f1} ", table, re.MULTILINE)
    trained_on = f"semi-supervised: {20 * treebanks.PER_SECTION} gold, {SILVER} silver sentences"
    for run in RUNS:
        assert re.search(rf"^\| {run} +\| {trained_on} +\| +\| +[\d.]+ \|$", table, re.MULTILINE)
    assert "ours is of corpus wsj_semi_supervised, subset test, 3 sentences" in table
    named = [run["settings"]["name"] for run in content(whole.exp / "table" / "table.json")["runs"]]
    assert named == list(RUNS)


@pytest.mark.parametrize("run", RUNS)
def test_a_search_leaves_what_its_score_is_made_of(whole, run):
    part = whole.exp / run / "test"
    assert {path.name for path in part.iterdir()} == {
        *("settings.json", "generate.txt", "linearised.txt", "words.txt", "gold.trees"),
        *("predicted.trees", "repairs.json", "score.json", "evalb.txt", "seconds.json"),
    }
    words = lines_of(part / "words.txt")
    for file in ("gold.trees", "predicted.trees"):
        trees = lines_of(part / file)
        leaves = [" ".join(re.findall(r" ([^() ]+)\)", tree)) for tree in trees]
        assert leaves == words and len(words) == treebanks.TEST
    assert content(part / "score.json")["all"]["sentences"] == treebanks.TEST
    assert content(part / "repairs.json")["sentences"] == treebanks.TEST
    seconds = content(part / "seconds.json")
    assert seconds["sentences"] == treebanks.TEST and seconds["seconds"] > 0
    settings = content(part / "settings.json")
    expected = {"name": run, "row": "parsing_tiny", "corpus": "wsj_semi_supervised", "averaged": 2}
    assert {key: settings[key] for key in expected} == expected
    assert list(settings["commands"]) == ["train", "average", "validate", "generate", "score"]
    assert re.search(r"Number of sentence +=\s+3$", (part / "evalb.txt").read_text(), re.MULTILINE)


def test_silver_trees_are_trained_on_once_and_gold_twice(whole):
    gold = 20 * treebanks.PER_SECTION
    trained_on = {"gold": gold, "silver": SILVER, "augmented": 0, "tags": "pos"}
    assert content(whole.exp / OURS / "data.json") == trained_on
    assert {path.name for path in (whole.exp / "bin").glob("train1.*")} == {
        f"train1.words-tree.{side}.{kind}" for side in ("words", "tree") for kind in ("bin", "idx")
    }
    # stock's training, which was not killed, says how many sentences an update had
    log = (whole.exp / RUNS[1] / "train.log").read_text()
    epoch = json.loads(re.search(r'^\{"epoch": 1, "train_loss".*', log, re.MULTILINE)[0])
    updates = int(epoch["train_num_updates"])
    assert updates < 6, "the epoch is not whole"
    assert float(epoch["train_bsz"]) * updates == pytest.approx(2 * gold + SILVER, abs=1)


def test_phrases_and_pairs_are_a_text_of_their_own(trees, tmp_path):
    exp = tmp_path / "exp"
    options = ("--silver", trees.silver, "--augment", "true", "--stop_stage", "4")
    finish(trees.command(exp, *options))
    augmented = content(exp / "bin" / "data.json")["augmented"]
    assert augmented > 3 * 20 * treebanks.PER_SECTION * 0.9
    for side, file in (("words", "text"), ("tree", "tree")):
        assert len(lines_of(exp / "trees" / f"augmented.{file}")) == augmented
        for part, size in (("train1", SILVER), ("train2", augmented)):
            binary = MMapIndexedDataset(str(exp / "bin" / f"{part}.words-tree.{side}"))
            assert len(binary) == size
    assert not (exp / "trees" / "augmented.ptb").exists()


def test_a_killed_training_goes_on_from_its_checkpoint(whole):
    assert f"goes on from the last checkpoint in {whole.exp}/{OURS}\n" in whole.result.stderr
    log = (whole.exp / "log" / f"5-train-{OURS}.log").read_text()
    assert re.search(r"Loaded checkpoint \S+/checkpoint_last\.pt \(epoch 1 @ [2-6] updates\)", log)
    assert f" stage 5-train-{OURS} goes on\n" in whole.result.stderr
    resumed = [len(content(whole.exp / run / "test" / "settings.json")["resumed"]) for run in RUNS]
    assert resumed == [1, 0]
    runs = content(whole.exp / "table" / "table.json")["runs"]
    assert [run["training"]["updates"] for run in runs] == [6, 6]
    assert not list(whole.exp.rglob("*.part"))


def test_no_piece_of_the_text_and_no_symbol_of_the_trees_is_unknown(whole):
    log = (whole.exp / "bin" / "preprocess.log").read_text()
    replaced = re.findall(r"\[(words|tree)\] (\S+?):? .*, ([\d.]+)% replaced", log)
    assert {(side, share) for side, _, share in replaced} == {("words", "0.0"), ("tree", "0.0")}
    assert len(replaced) == 6


@pytest.mark.parametrize("part", ["valid", "test"])
def test_what_is_held_out_scores_100_once_it_is_a_tree_again(whole, part, tmp_path):
    """Breaks if a step loses what EVALB counts, or if files of a set are not line for line."""
    held_out, again = whole.exp / "trees" / part, tmp_path / "again.trees"
    done = call(["aiayn", "delinearize", f"{held_out}.tree", "--words", f"{held_out}.words"])
    assert "(100.00%)" in done.stderr
    again.write_text(done.stdout)
    score = call(["aiayn", "evalb", f"{held_out}.trees", str(again), "--json"])
    scores = json.loads(score.stdout)["all"]
    sentences = {"valid": treebanks.PER_SECTION, "test": treebanks.TEST}[part]
    expected = {"sentences": sentences, "valid": sentences, "f1": 100, "tagging_accuracy": 100}
    assert {name: scores[name] for name in expected} == expected


def test_the_same_command_again_skips_everything_and_changes_nothing(whole):
    before = files_of(whole.exp)
    again = finish(whole.words)
    assert again.stderr.count(" is done, skipped") == len(TEXT_STAGES) + 2 * 4 + 1
    assert stages_run(again.stderr) == []
    assert files_of(whole.exp) == before


def test_a_constrained_search_beside_the_first_needs_no_repair(whole, tmp_path):
    unconstrained = files_of(whole.exp / OURS / "test")
    result = finish([*whole.words, "--constrained", "--stage", "10", "--stop_stage", "11"])
    name = f"{OURS}-test-constrained"
    assert stages_run(result.stderr) == [f"10-parse-{name}", f"11-score-{name}"]
    part = whole.exp / OURS / "test-constrained"
    repairs = content(part / "repairs.json")
    assert repairs["well_formed"] == repairs["sentences"] == treebanks.TEST
    tags_only = {name for name, count in repairs["repairs"].items() if count}
    assert tags_only <= {"punctuation tags"}  # of words, which the search does not see
    assert " --constrained " in content(part / "settings.json")["commands"]["generate"]
    assert files_of(whole.exp / OURS / "test") == unconstrained
    parts = [str(whole.exp / OURS / name) for name in ("test", "test-constrained")]
    table = call(["aiayn", "compare", *parts, "--output", str(tmp_path)])
    assert f"| {OURS} test-constrained " in table.stdout


# --- with stand-ins for fairseq's commands ---


@pytest.fixture(scope="module")
def text(trees, tools, tmp_path_factory) -> Path:
    """EXP of a recipe with prepared text."""
    exp = tmp_path_factory.mktemp("text") / "exp"
    finish(trees.command(exp, "--tags", "XX", "--stop_stage", "4"), **tools)
    return exp


@pytest.fixture
def command(trees, text, tmp_path) -> Callable[..., list[str]]:
    """Return a function that gives the command that trains and evaluates on the prepared text."""
    own = ("--tags", "XX", "--prepared", text, "--average", "1")
    return lambda *options: trees.command(tmp_path / "exp", *own, *options)


def test_the_dropout_that_is_best_on_section_22_parses_section_23(command, text, tools, tmp_path):
    exp, before = tmp_path / "exp", files_of(text)
    words = command("--dropouts", "0.1 0.2 0.3")
    result = finish(words, **tools, STAND_IN_SPOILS="dropout0.1")
    tried = [f"{OURS}-dropout{dropout}" for dropout in ("0.1", "0.2", "0.3")]
    assert stages_run(result.stderr) == ["0-set_up", *stages_of_grid(tried, chosen=tried[1])]
    f1 = [content(exp / name / "valid" / "score.json")["all"]["f1"] for name in tried]
    assert f1[0] < 100 and f1[1:] == [100, 100]
    assert lines_of(exp / f"{OURS}.chosen") == [f"{exp}/{tried[1]}"]
    assert [name for name in tried if (exp / name / "test").exists()] == [tried[1]]
    (row,) = content(exp / tried[1] / "table" / "table.json")["runs"]
    assert (row["settings"]["name"], row["scores"]["all"]["f1"]) == (tried[1], 100)
    train = row["settings"]["commands"]["train"]
    assert " --dropout 0.2 --attention-dropout 0.2 " in train
    assert files_of(text) == before

    again = call(words, **tools)
    assert (again.returncode, stages_run(again.stderr)) == (0, [])


def stages_of_grid(tried: list[str], chosen: str) -> list[str]:
    each = [
        stage
        for name in tried
        for stage in (f"5-train-{name}", f"7-parse-{name}-valid", f"8-score-{name}-valid")
    ]
    end = [f"9-choose-{OURS}", f"10-parse-{chosen}-test", f"11-score-{chosen}-test", "12-table"]
    return each + end


def test_ctrl_c_stops_the_training_and_the_same_command_goes_on(command, tools, tmp_path):
    exp, errors, training = (tmp_path / name for name in ("exp", "errors", "training"))
    words = command("--subset", "valid")
    # A shell in the background ignores SIGINT, and bash cannot trap what it was told to ignore.
    interruptible = ["env", "--default-signal=INT", *words]
    first = start(interruptible, errors, **tools, STAND_IN_WAITS=str(training))
    wait_for(training, first, errors)
    first.send_signal(signal.SIGINT)
    assert first.wait(timeout=PATIENCE) == 130
    assert (
        f"interrupted in stage 5-train-{OURS}; the same command goes on from there"
        in errors.read_text()
    )
    assert session_of(int(training.read_text())) is None
    assert not (exp / OURS / ".done" / f"5-train-{OURS}").exists()

    second = finish(words, **tools)
    after = [f"10-parse-{OURS}-valid", f"11-score-{OURS}-valid", "12-table"]
    assert stages_run(second.stderr) == [f"5-train-{OURS}", *after]
    assert f" stage 5-train-{OURS} goes on" in second.stderr
    part = exp / OURS / "valid"
    assert len(lines_of(part / "words.txt")) == treebanks.PER_SECTION
    assert " XX " in lines_of(part / "linearised.txt")[0]
    score = content(part / "score.json")["all"]
    assert (score["f1"], score["errors"]) == (100, 0)


def test_a_training_on_other_symbols_never_takes_the_place_of_one(trees, tools, tmp_path):
    exp = tmp_path / "exp"
    words = trees.command(exp, "--stop_stage", "5")
    finish(words, **tools)
    trained = files_of(exp / OURS)
    other = call([*words, "--tags", "XX"], **tools)
    message = f"{exp}/{OURS} holds a training with other data or options: --run NAME trains beside"
    assert other.returncode == 1 and message in other.stderr.splitlines()[-1]
    assert files_of(exp / OURS) == trained
    back = finish(words, **tools)
    assert f"stage 5-train-{OURS} is done, skipped" in back.stderr
    assert files_of(exp / OURS) == trained


def test_prepared_text_that_is_not_there_is_named(trees, tools, tmp_path):
    refused = call(trees.command(tmp_path / "exp", "--prepared", tmp_path / "no"), **tools)
    assert refused.returncode == 1
    assert f"run.sh: {tmp_path}/no has no prepared text" in refused.stderr

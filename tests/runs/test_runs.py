"""What logs say of a training; what differs between runs; runs that differ in the seed alone; what
is noted and shown of a training; one run, read from what a recipe leaves."""

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from faults import fault_of
from run_directories import (
    END,
    GOLD,
    MADE,
    PARAMETERS,
    epoch,
    f1_score,
    inner,
    score,
    train_log,
    valid,
    write_log,
    write_run,
    write_search,
)

from fairseq_aiayn.runs import progress
from fairseq_aiayn.runs import record as recording
from fairseq_aiayn.runs.differences import Difference, run_differences
from fairseq_aiayn.runs.logs import curves_of, last_perplexity, read_log, training_of
from fairseq_aiayn.runs.record import read_settings
from fairseq_aiayn.runs.run import ScoredRun, read_run
from fairseq_aiayn.runs.seeds import over_seeds


@pytest.fixture
def log(tmp_path):
    return lambda *lines: read_log(write_log(tmp_path, *lines))


def test_time_is_that_of_the_clock_where_it_runs(log):
    """Validations and checkpoints count; a resumed start, whose clock stands at 0, has updates."""
    clock = [inner(10, 9.0, 4, 7), inner(20, 8.0, 4, 17), inner(30, 7.0, 4, 21)]
    stands = [inner(30, 7.5, 4), inner(40, 7.0, 5)]
    seconds = curves_of(log(*clock, *stands))["seconds"]
    assert seconds == {10: 7.0, 20: 17.0, 30: 21.0, 40: 26.0}


def test_what_a_resumed_training_did_again_counts_once(log):
    killed = [inner(10, 9.0), inner(20, 8.0), inner(30, 7.0), inner(40, 6.0), valid(40, 5.0)]
    again = [PARAMETERS, inner(20, 8.5), valid(20, 8.4), inner(30, 7.5)]
    curves = curves_of(log(*killed, *again))
    assert curves["loss"] == {10: 9.0, 20: 8.5, 30: 7.5}
    assert curves["perplexity"] == {10: 18.0, 20: 17.0, 30: 15.0}
    assert curves["learning rate"] == {10: 1e-5, 20: 2e-5, 30: 3e-5}
    assert curves["seconds"][30] == 15.0
    assert curves["development loss"] == {20: 8.4}


def test_the_cost_is_that_of_what_was_kept(log):
    lines = [
        PARAMETERS,
        '{"epoch": 1, "num_updates": "10", "wpb": "1", "train_wall": "5"}',
        epoch(1, 100, 900.0, 30, 2000),  # 90,000 tokens in 45 seconds
        epoch(1, 100, 900.0, 30, 2000),  # fairseq repeats itself
        '{"epoch": 2, "num_upda',  # killed here, then resumed
        PARAMETERS,
        epoch(2, 150, 600.0, 30, 750),  # 30,000 tokens in 40 seconds
        epoch(3, 151, 600.0, 2, 0),  # an epoch of one update has no speed
        END,
    ]
    training = training_of(log(*lines))
    assert (training.parameters, training.updates) == (6_578_176, 151)
    assert (training.seconds, training.wall_seconds) == (62, 45 + 40 + 2)
    assert training.tokens_per_second == pytest.approx((100 * 900 + 51 * 600) / 62)


def test_the_largest_peak_of_all_starts_is_the_runs(log):
    peaks = "peak memory: 900 MiB", "peak memory: 800 MiB, of the GPU 5000 MiB"
    training = training_of(log(train_log(100), *peaks))
    assert (training.peak_memory, training.peak_gpu_memory) == (900, 5000)


def test_the_last_validation_of_a_log_counts(log):
    lines = [f'{{"valid_ppl": "{perplexity}"}}' for perplexity in (8.5, 7.25)]
    assert last_perplexity(log(*lines)) == 7.25


COUNTS = ("epoch", "num_updates", "train_num_updates", "valid_num_updates")
AMOUNTS = ("train_wpb", "train_train_wall", "train_wps", "train_wall", "wall", "loss", "valid_ppl")
WRONG = ["null", "[]", '["x"]', "{}", "true", '"1/3"', "NaN", '"inf"', "1e400", "-1", "9" * 5000]
DEEP = '{"a": ' * 20_000 + "1" + "}" * 20_000


def test_a_line_whose_epoch_or_updates_are_no_count_says_nothing(log):
    sound = [inner(50, 9.0), valid(50, 8.0), train_log(100)]
    wrong = [f'{{"valid_ppl": 1, "{name}": {value}}}' for name in COUNTS for value in WRONG]
    read, expected = log(DEEP, *wrong, *sound, *wrong), log(*sound)
    for what in (training_of, curves_of, last_perplexity):
        assert what(read) == what(expected)


def test_what_is_no_amount_ends_no_command(tmp_path, aiayn):
    long = "x" * 1_000_000  # a pattern that looks at each part of it would not come to an end
    lines = [DEEP, f"epoch 1: {long}", "num. shared model params: " + "9" * 5000]
    lines += [inner(50, 9.0), valid(50, 8.0), f"x: 1 of 2 pairs are left out by --{'-' * 99_999}"]
    for name in AMOUNTS:
        counts = '"epoch": 1, "num_updates": 60, "train_num_updates": 60, "valid_num_updates": 60'
        lines += [f'{{{counts}, "{name}": {value}}}' for value in WRONG]
    log = "\n".join([*lines, train_log(100)])
    run = write_run(tmp_path / "run", **{"train.log": log})
    assert aiayn("compare", run, "--output", tmp_path / "out")[0] == 0
    for words in ((run,), (run / "train.log", "--row", "base")):
        assert aiayn("diagnose", *words)[0] == 0


TRAIN = "fairseq-train bin --beam 4 --arch"


@pytest.fixture
def two_runs(tmp_path):
    a = {"seed": 1, "packages": {"torch": "2.0"}, "commands": {"train": f"{TRAIN} x --save-dir a"}}
    b = {"seed": 2, "packages": {"torch": "2.1"}, "commands": {"train": f"{TRAIN} y --save-dir b"}}
    return [read_run(write_run(tmp_path / name, made))[0] for name, made in (("a", a), ("b", b))]


def test_only_what_differs_is_listed_and_no_places(two_runs):
    expected = [
        Difference("run", "seed", ("1", "2")),
        Difference("train", "--arch", ("x", "y")),
        Difference("package", "torch", ("2.0", "2.1")),
    ]
    assert run_differences(two_runs) == expected
    assert run_differences(two_runs[:1]) == []
    other = [two_runs[0], replace(two_runs[1], vocabulary=None)]
    assert Difference("run", "vocabulary", ("37000", "")) in run_differences(other)


def test_what_the_logs_know_takes_the_place_of_what_was_asked(two_runs):
    """Also for an option that one command line left out, or that only one system has."""
    logged = [
        {"arch": "x", "beam": "4", "_name": "m", "own": "1", "lr": [0.25]},
        {"arch": "y", "beam": "4", "_name": "n", "other": "2", "lr": [0.1, 0.2]},
    ]
    differences = run_differences(two_runs, logged)
    of_training = [each for each in differences if each.where == "train"]
    assert of_training == [
        Difference("train", "--arch", ("x", "y")),
        Difference("train", "--lr", ("0.25", "0.1,0.2")),
    ]
    asked = replace(two_runs[0].settings, commands={"train": "fairseq-train --own 1"})
    differences = run_differences([replace(two_runs[0], settings=asked), two_runs[1]], logged)
    assert Difference("train", "--own", ("1", "")) in differences


def test_the_papers_search_is_known_though_no_option_asks_for_it(two_runs):
    commands = {
        "aiayn": "fairseq-generate bin",
        "stock": "fairseq-generate bin --beam 4 --lenpen 1.0 --max-len-b 50",
    }
    runs = [
        replace(run, settings=replace(run.settings, system=system, commands={"generate": command}))
        for run, (system, command) in zip(two_runs, commands.items(), strict=True)
    ]
    differences = run_differences(runs)
    assert [each for each in differences if each.where == "generate"] == [
        Difference("generate", "--lenpen", ("0.6", "1.0")),
        Difference("generate", "--max-len-a", ("1", "")),
    ]


def make_runs(folder: Path, *given: tuple[int, float, dict]) -> list[ScoredRun]:
    runs = []
    for k, (seed, bleu, other) in enumerate(given):
        files = {"score.json": score(bleu), "train.log": train_log(other.get("updates", 9))}
        path = write_run(folder / f"run-{k}", {"seed": seed} | other, **files)
        runs.append(read_run(path)[0])
    return runs


def test_seeds_of_one_training_are_a_group(tmp_path):
    """The first run with a seed counts."""
    others = (2, 9.0, {}), (4, 9.0, {"row": "big"})
    (group,) = over_seeds(make_runs(tmp_path, (1, 27.0, {}), (2, 28.0, {}), (3, 30.0, {}), *others))
    assert group.name == "run-0, run-1, run-2", "no name ends with its seed"
    assert group.runs == ("run-0", "run-1", "run-2")
    assert group.figures == {
        "BLEU as the paper's": (27, 28, 30),
        "sacreBLEU": (26, 27, 29),
        "development perplexity": (9.87,) * 3,
    }


def trained(options: str, **other: int) -> dict:
    return {"commands": {"train": f"fairseq-train {options}"}, **other}


@pytest.mark.parametrize(
    ("first", "second", "groups"),
    [
        ({}, {}, 1),
        ({}, {"averaged": 1}, 0),
        ({"text_sha256": "a"}, {"text_sha256": "b"}, 0),
        ({}, {"gpus": 8}, 0),
        (trained("bin"), trained("bin --fp16"), 0),
        # Directories and ports are the run's own
        (trained("a/bin --save-dir a --data 1"), trained("b/bin --save-dir b --data 2"), 1),
        # With --patience each run has its own number of updates
        (trained("bin", updates=300), trained("bin", updates=400), 0),
        (trained("bin --patience 3", updates=300), trained("bin --patience 3", updates=400), 1),
    ],
)
def test_a_group_differs_in_the_seed_and_in_what_changes_no_mathematics(
    tmp_path, first, second, groups
):
    assert len(over_seeds(make_runs(tmp_path, (1, 27.0, first), (2, 28.0, second)))) == groups


NVIDIA_SMI = """#!/bin/sh
case $1 in
--query-gpu=name,driver_version)
    case $3 in
    --id=1) echo 'NVIDIA H2, 550.1' ;;
    *) printf 'NVIDIA H1, 80GB, 550.1\\nNVIDIA H1, 80GB, 550.1\\n' ;;
    esac ;;
*) echo '| NVIDIA-SMI 550.1    Driver Version: 550.1    CUDA Version: 12.4     |' ;;
esac
"""
FIRST = ["--name=a-1", "--system=aiayn", "--row=base", "--seed=7", "--device=cuda", "--gpus=2"]
LATER = ["--name=b", "--system=stock", "--row=big", "--seed=8", "--device=cpu", "--gpus=0"]


@pytest.fixture
def write(tmp_path):
    """Return a function that runs record.py beside two GPUs; what it prints is kept in a file."""
    (tmp_path / "nvidia-smi").write_text(NVIDIA_SMI)
    (tmp_path / "nvidia-smi").chmod(0o755)

    def run(path: Path, *arguments: object) -> dict:
        command = [sys.executable, recording.__file__, *map(str, arguments)]
        environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
        done = subprocess.run(command, capture_output=True, check=True, env=environment)
        path.write_bytes(done.stdout)
        return json.loads(done.stdout)

    return run


def test_settings_are_written_as_they_are_read(tmp_path, write, monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    text = f"fairseq-train {recording.ROOT}/exp/bin --user-dir '{recording.ROOT}/my exp'"
    training, path = tmp_path / "training.json", tmp_path / "settings.json"
    write(training, "training", *FIRST, "--corpus=x", "--nodes=2", "--command", "train", text)
    evaluated = ["--training", training, "--subset", "valid", "--average", 5]
    written = write(path, "evaluation", *evaluated, "--command", "score", "aiayn bleu")
    settings = read_settings(path)
    assert set(written) == set(vars(settings)), "one name for what is written and what is read"
    assert (settings.name, settings.row, settings.corpus) == ("a-1", "base", "x")
    assert (settings.subset, settings.averaged) == ("valid", 5)
    assert (settings.gpus, settings.nodes, settings.seed) == (2, 2, 7)
    assert settings.commands == {
        "train": "fairseq-train exp/bin --user-dir 'my exp'",  # from the root of the checkout
        "score": "aiayn bleu",
    }
    assert settings.hardware["gpus"] == ["NVIDIA H1, 80GB"] * 2
    assert (settings.hardware["driver"], settings.hardware["cuda"]) == ("550.1", "12.4")
    for visible, gpus in {"1": ["NVIDIA H2"], "": []}.items():
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        seen = write(tmp_path / "x", "training", *FIRST, "--command", "train", "fairseq-train bin")
        assert seen["hardware"]["gpus"] == gpus


def test_a_training_that_goes_on_keeps_the_record_of_its_first_start(tmp_path, write):
    """A record from before there were later starts in it gets them too."""
    record = tmp_path / "training.json"
    record.write_text(json.dumps(MADE))
    for command, options in (("fairseq-train second", FIRST), ("fairseq-train third", LATER)):
        go_on = ("--resumes", record, "--command", "train", command)
        last = write(record, "training", *options, "--nodes=3", *go_on)
    assert {key: last[key] for key in MADE} == MADE
    wheres = [{"device": "cuda", "gpus": 2, "nodes": 3}, {"device": "cpu", "gpus": 0, "nodes": 3}]
    for start, where in zip(last["resumed"], wheres, strict=True):
        assert start.items() >= where.items() and start["hardware"] and start["packages"]
    evaluated = ["--training", record, "--command", "score", "bleu"]
    settings = write(tmp_path / "settings.json", "evaluation", *evaluated)
    assert settings["resumed"] == last["resumed"]
    assert settings["commands"] == MADE["commands"] | {"score": "bleu"}
    assert settings["evaluated_by"] == last["resumed"][0]["commit"] != settings["commit"]


def test_the_commit_is_that_of_this_package(tmp_path, monkeypatch):
    """Not that of the project in whose folder it was installed. An output there is no change."""
    installed = tmp_path / "venv" / "record.py"
    installed.parent.mkdir()
    installed.write_text("")
    (tmp_path / "own.txt").write_text("")
    monkeypatch.setattr(recording, "__file__", str(installed))
    git = ["git", "-C", tmp_path, "-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["add", "own.txt"], ["commit", "-qm", "own"]):
        subprocess.run([*git, *words], check=True)
    assert recording.commit() is None
    for words in (["add", "venv"], ["commit", "-qm", "a copy"]):
        subprocess.run([*git, *words], check=True)
    for name, changed in (("heads.html", ""), ("own.txt", "[+]")):
        (tmp_path / name).write_text("changed")
        assert re.fullmatch("[0-9a-f]{40}" + changed, recording.commit())


START = "2026-01-31 12:00:00 | INFO | "
INNER = {"loss": "9.1", "ppl": "77.5", "wps": "2450", "num_updates": "400"}
UNREADABLE = [
    f"{START}train_inner | {json.dumps(INNER)} {{}}\n",
    f'{START}train_inner | {{"epoch": 1,\n',
    f'{START}valid | {{"valid_num_updates": null}}\n',
    f"{{'max_update': {'9' * 5000}}}\n",
    f"{START}valid | {'{' * 100_000}\n",
    "no line end",
]


def show(directory: Path, lines: list[str], **streams: int) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", progress.__name__, "--log", directory / "log"]
    return subprocess.run(command, input="".join(lines).encode(), check=False, **streams)


def test_what_cannot_be_read_is_kept_and_passed_over(tmp_path):
    last = f'{START}valid | {{"valid_ppl": "8.5", "valid_num_updates": "900"}}\n'
    lines = [*UNREADABLE[:-1], last, "10%|#   |\r", UNREADABLE[-1]]
    done = show(tmp_path, lines, stderr=subprocess.PIPE)
    assert done.returncode == 0 and b"Traceback" not in done.stderr
    assert b"update    900: " in done.stderr and b"10%|#   |\r" in done.stderr
    assert (tmp_path / "log").read_text() == "".join(lines).replace("10%|#   |\r", "")


def test_a_broken_terminal_costs_no_line_of_the_log(tmp_path):
    """Breaks if the program that writes gets SIGPIPE, or the display's status ends a recipe."""
    lines = [f"{START}train_inner | {json.dumps(INNER)}\n", "10%|#   |\r", "words\n"] * 60
    read, write = os.pipe()
    os.close(read)
    done = show(tmp_path, lines, stderr=write)
    os.close(write)
    assert done.returncode == 0
    assert (tmp_path / "log").read_text() == "".join(line for line in lines if line[-1] == "\n")


def test_a_full_disk_does_not_end_the_command(tmp_path):
    (tmp_path / "log").symlink_to("/dev/full")
    done = show(tmp_path, ["words\n"] * 9999, stderr=subprocess.PIPE)
    assert done.returncode == 0
    assert done.stderr.count(b"No space left on device") == 1


NO_MACHINE = '{"system": "x", "hardware": "X1"}'
KILLED = f"{train_log(10)}\n{PARAMETERS}"  # when it had been started again
UNPREDICTED = f1_score(1).replace('"predicted"', '"guessed"')
UNCOUNTED = '{"repairs": {"too deep": "x"}}'


def test_settings_and_logs_of_older_runs_will_do(tmp_path):
    old = {"settings.json": '{"system": "ours"}', "valid.log": '{"valid_ppl": "3"}\n'}
    run, _ = read_run(write_run(tmp_path / "a", **old))
    assert (run.name, run.settings.row, run.vocabulary) == ("ours", None, None)


def test_a_search_is_read_where_one_is(tmp_path, monkeypatch):
    monkeypatch.chdir(write_search(tmp_path / "a", part="valid-constrained"))
    run, _ = read_run(Path())
    assert (run.name, run.part) == ("a valid-constrained", "valid-constrained")
    assert (run.training.updates, run.dev_perplexity, run.vocabulary) == (12_000, 1.234, 7001)


@pytest.mark.parametrize(
    ("write", "file", "content", "message"),
    [
        (write_run, "settings.json", '{"system": ', "expected JSON"),
        (write_run, "settings.json", NO_MACHINE, "hardware: expected an object, got 'X1'"),
        (write_run, "score.json", '{"sentences": 4}', "sacrebleu: missing key"),
        (write_run, "train.log", KILLED, "must be the log of a finished training, lacks 'done tr"),
        (write_run, "train.log", f"{PARAMETERS}\n{END}", "must be written with --log-format json"),
        (write_run, "valid.log", "", "must have a JSON line with 'valid_ppl', has none"),
        (write_run, "hypothesis.txt", "x\n", "expected the 4 sentences of score.json, got 1"),
        (write_search, "gold.trees", GOLD, "expected the 4 sentences of score.json, got 1"),
        (write_search, "score.json", UNPREDICTED, "labels.NP.predicted: "),
        (write_search, "repairs.json", UNCOUNTED, "repairs.too deep: expected a valid "),
    ],
)
def test_a_file_that_is_unfinished_or_wrong_is_named(tmp_path, write, file, content, message):
    directory = write(tmp_path / "a", **{file: content})
    assert fault_of(read_run, directory).startswith(f"{directory}/{file}: {message}")

"""What differs between runs."""

from dataclasses import replace

import pytest
from run_directories import MADE, write_run

from fairseq_aiayn.runs.differences import Difference, run_differences
from fairseq_aiayn.runs.run import read_run


@pytest.fixture
def two_runs(tmp_path):
    """Two runs that differ in a few things."""
    train = "fairseq-train bin --save-dir {} --arch {} --beam 4"
    paths = [
        write_run(
            tmp_path / name,
            MADE
            | {"name": name, "commands": {"train": train.format(name, arch)}, "seed": seed}
            | {"packages": {"torch": version}},
        )
        for name, arch, seed, version in (("a", "x", 1, "2.0"), ("b", "y", 2, "2.1"))
    ]
    return [read_run(path)[0] for path in paths]


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
    """Breaks if an option that one command line left out looks different where it is not, or one
    that only a single system has is lost."""
    logged = [
        {"arch": "x", "beam": "4", "_name": "m", "own": "1"},
        {"arch": "y", "beam": "4", "_name": "n", "other": "2"},
    ]
    differences = run_differences(two_runs, logged)
    of_training = [each for each in differences if each.where == "train"]
    assert of_training == [Difference("train", "--arch", ("x", "y"))]
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

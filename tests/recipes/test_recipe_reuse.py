"""What further runs of a recipe take over from those before; fairseq's commands are stand-ins."""

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from recipe_runs import (
    SHORT,
    call,
    files_of,
    finish,
    lines_of,
    mirrored,
    stages_run,
)

RUN = "aiayn-tiny-1"
FINAL = ("--average", "1")  # the stand-in saves no others
Recipe = Callable[..., subprocess.CompletedProcess]


@pytest.fixture(scope="module")
def exp(corpus, tools, tmp_path_factory) -> Path:
    """EXP after a whole run."""
    exp = tmp_path_factory.mktemp("finished") / "exp"
    finish(mirrored(corpus, exp, *SHORT, *FINAL), **tools)
    return exp


@pytest.fixture
def recipe(corpus, tools) -> Recipe:
    """Return a function that runs the recipe in EXP, with options."""

    def run(exp: Path, *options: str | Path) -> subprocess.CompletedProcess:
        return call(mirrored(corpus, exp, *SHORT, *FINAL, *options), **tools)

    return run


@pytest.fixture
def copy(exp, tmp_path) -> Path:
    """A copy of EXP after a whole run."""
    return shutil.copytree(exp, tmp_path / "exp", symlinks=True)


def settings(run: Path) -> dict:
    return json.loads((run / "settings.json").read_text())


def test_another_set_is_scored_without_another_training(exp, recipe):
    trained = files_of(exp / RUN / "checkpoints")
    for subset, sentences in (("valid", 20), ("test", 12)):
        result = recipe(exp, "--subset", subset)
        assert result.returncode == 0, result.stderr
        run = exp / RUN
        assert len(lines_of(run / "hypothesis.txt")) == sentences
        assert lines_of(run / "reference.txt") == lines_of(exp / "data" / f"{subset}.de")
        assert json.loads((run / "score.json").read_text())["sentences"] == sentences
        assert settings(run)["subset"] == subset
        assert f" stage 5-train-{RUN} is done, skipped" in result.stderr
        assert stages_run(result.stderr) == [f"7-translate-{RUN}", f"8-score-{RUN}"]
        assert files_of(run / "checkpoints") == trained


def test_another_seed_is_trained_on_the_same_text_beside_the_first(exp, recipe):
    before = files_of(exp)
    result = recipe(exp, "--seeds", "2")
    assert result.returncode == 0, result.stderr
    assert stages_run(result.stderr) == [
        f"{stage}-aiayn-tiny-2" for stage in ("5-train", "7-translate", "8-score")
    ]
    after = files_of(exp)
    assert {name: after[name] for name in before} == before
    assert settings(exp / "aiayn-tiny-2")["seed"] == 2


def test_prepared_text_serves_an_exp_of_its_own(exp, recipe, tmp_path):
    before = files_of(exp)
    result = recipe(tmp_path / "exp", "--prepared", exp, "--row", "base")
    assert result.returncode == 0, result.stderr
    assert stages_run(result.stderr)[0] == "0-set_up"
    assert stages_run(result.stderr)[1] == "5-train-aiayn-base-1"
    assert files_of(exp) == before
    run = tmp_path / "exp" / "aiayn-base-1"
    assert f"fairseq-train {exp}/bin " in settings(run)["commands"]["train"]
    assert lines_of(run / "reference.txt") == lines_of(exp / "data" / "test.de")
    assert not (tmp_path / "exp" / "data").exists()


def test_other_text_does_not_replace_a_training(copy, recipe):
    trained = files_of(copy / RUN)
    result = recipe(copy, "--vocabulary", "150")
    message = f"{copy}/{RUN} holds a training with other data or options: --run NAME trains beside"
    assert result.returncode == 1
    assert message in result.stderr.splitlines()[-1]
    assert files_of(copy / RUN) == trained
    beside = recipe(copy, "--vocabulary", "150", "--run", "small")
    assert beside.returncode == 0, beside.stderr
    assert files_of(copy / RUN) == trained


def test_after_a_mistyped_option_of_the_text_the_training_is_taken_up_again(copy, recipe):
    trained = files_of(copy / RUN / "checkpoints")
    assert recipe(copy, "--vocabulary", "150").returncode == 1
    again = recipe(copy)
    assert again.returncode == 0, again.stderr
    assert files_of(copy / RUN / "checkpoints") == trained


@pytest.mark.parametrize("change", ["other", "gone", "more", "unnamed"])
def test_binaries_that_changed_behind_their_seal_are_not_trusted(copy, recipe, tmp_path, change):
    """Breaks if a training goes on with other text than its settings say."""
    binary = copy / "bin" / "train.de"  # as the stand-in calls it
    if change == "other":
        binary.write_bytes(binary.read_bytes()[:-1] + b"x")
    elif change == "gone":
        binary.unlink()
    elif change == "unnamed":
        (copy / "bin" / "corpus").unlink()
    else:
        (copy / "bin" / "train1.en-de.de.bin").write_bytes(b"x")
    for result in (recipe(copy), recipe(tmp_path / "new", "--prepared", copy)):
        assert result.returncode == 1
        assert f"{copy}/bin is not what the recipe made" in result.stderr.splitlines()[-1]

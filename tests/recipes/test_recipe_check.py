"""Stage 0 of recipes: what a later stage would lack ends them before they make anything."""

import shutil

import pytest
from recipe_runs import RECIPES, call, failure, finish, write_tool

MULTI30K = (RECIPES / "multi30k/run.sh", "--device", "cpu")
TABLE3 = (RECIPES / "table3/run.sh", "--corpus", "multi30k", "--rows", "base")
MADE_AT_ONCE = {".done", ".lock", ".part", "options.txt", "recipe.log"}


@pytest.fixture
def without_fairseq(tmp_path) -> dict[str, str]:
    """Variables with which aiayn is on PATH and fairseq is not."""
    path = tmp_path / "tools"
    for name in ("aiayn", "python"):
        write_tool(path / name, f'exec {shutil.which(name)} "$@"\n')
    return {"PATH": f"{path}:/usr/bin:/bin"}


def test_without_fairseq_nothing_is_downloaded(tmp_path, without_fairseq):
    exp = tmp_path / "exp"
    result = call([*MULTI30K, "--exp", exp], **without_fairseq)
    line = failure(result, "0-check")
    assert "fairseq-preprocess is not on PATH" in line and "pip install" in line
    assert not (exp / "downloads").exists() and " stage 1-" not in result.stderr


def test_more_gpus_than_there_are_end_a_recipe_that_would_train(tmp_path):
    words = [RECIPES / "wmt14_en_de/run.sh", "--gpus", "99", "--mirror", tmp_path]
    assert "expected 99 GPUs" in failure(call([*words, "--exp", tmp_path / "exp"]), "0-check")


@pytest.mark.parametrize("recipe", ["multi30k", "table3"])
def test_a_dry_run_begins_with_stage_0(tmp_path, recipe):
    words = [RECIPES / recipe / "run.sh", "--exp", tmp_path / "exp", "--dry_run"]
    words += ["--corpus", "multi30k", "--rows", "base big"] * (recipe == "table3")
    first = [line for line in finish(words).stdout.splitlines() if not line.startswith("export")]
    assert first[0].startswith("# stage 0-check") and first[1].startswith("aiayn check ")
    assert recipe != "table3" or "--row big" in first[1]


@pytest.mark.parametrize("recipe", [MULTI30K, TABLE3])
def test_stage_0_alone_makes_nothing_and_may_be_asked_for_at_any_time(tmp_path, recipe):
    exp = tmp_path / "exp"
    for _ in range(2):
        assert "GiB free" in finish([*recipe, "--exp", exp, "--stop_stage", "0"]).stderr
        assert {path.name for path in exp.iterdir()} <= MADE_AT_ONCE
        (exp / ".done").mkdir(exist_ok=True)
        (exp / ".done/4-binarize").touch()

"""Neither the directory in which a recipe is started nor an environment variable is a program."""

from __future__ import annotations

from pathlib import Path

import pytest
from recipe_runs import RECIPES, call, make_corpus, mirrored, without_fork_server

TABLE3 = RECIPES / "table3" / "run.sh"
# What Python imports before or while it does a recipe's work.
SHADOWED = (
    "argparse",
    "dataclasses",
    "fairseq_aiayn",
    "json",
    "pip",
    "pkgutil",
    "runpy",
    "tomllib",
)


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A directory of modules that leave a mark where they are imported."""
    directory = tmp_path / "hostile"
    directory.mkdir()
    for name in SHADOWED:
        mark = f"open({str(tmp_path / 'mark')!r}, 'a').write({name!r})\n"
        (directory / f"{name}.py").write_text(mark)
    return directory


@pytest.mark.parametrize("python_path", ["", "/nowhere:"])
def test_python_imports_nothing_from_the_users_directory(
    hostile: Path, tmp_path: Path, python_path: str
) -> None:
    corpus = make_corpus("wmt14_en_de", tmp_path / "mirror", "de", 12)
    cleaned = mirrored(corpus, tmp_path / "exp", "--stop_stage", "2")[1:]
    body = 'recipe_options "$@"\nrecipe_begin\nget() { download pypi:none==1 "$exp/x.whl" -; }\n'
    sample = tmp_path / "run.sh"
    sample.write_text(
        f". {RECIPES}/lib/recipe.sh\n# Options\n# End of options\n{body}stage 1 get get\n"
    )
    variables = without_fork_server() | {"PIP_INDEX_URL": "http://localhost:9", "PIP_RETRIES": "0"}
    variables |= {"PYTHONPATH": python_path}
    downloading = ("bash", sample, "--exp", tmp_path / "pypi", "--needs_mb", "1")
    for words, ends_well in (
        ((RECIPES / "wmt14_en_de" / "run.sh", *cleaned), True),
        ((TABLE3, "--count"), True),
        (downloading, False),  # there is no such package
    ):
        result = call(words, hostile, **variables)
        assert (result.returncode == 0) == ends_well, result.stderr
        assert not (tmp_path / "mark").exists(), (tmp_path / "mark").read_text()
    assert (
        "No matching distribution found for none==1"
        in result.stderr + (tmp_path / "pypi" / "log" / "1-get.log").read_text()
    )


@pytest.mark.parametrize("name", ["SLURM_RESTART_COUNT", "SLURM_ARRAY_TASK_ID"])
def test_an_environment_variable_is_not_evaluated(tmp_path: Path, name: str) -> None:
    value = f"PATH[$(touch {tmp_path}/mark)]"
    call((TABLE3, "--exp", tmp_path / "exp", "--dry_run"), tmp_path, **{name: value})
    assert not (tmp_path / "mark").exists()

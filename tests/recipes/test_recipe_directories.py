"""A recipe deletes only what it made, and believes nothing that somebody wrote into its files."""

import fcntl
import os
import re
import subprocess
from pathlib import Path

import pytest
from dry_runs import dry_run
from patience import PATIENCE
from recipe_runs import RECIPES, call, environment, refusal, write_tool

DEMO = RECIPES / "demo" / "run.sh"
PARSING = RECIPES / "wsj_parsing" / "run.sh"


def refused(recipe: Path, directory: Path, *options: object) -> str:
    """The line with which a recipe with these options ends."""
    return refusal(call([recipe, "--device", "cpu", *options], directory))


def precious(directory: Path) -> Path:
    directory.mkdir(parents=True)
    (directory / "train.en").write_text("mine\n")
    (directory / "train.de").write_text("meins\n")
    return directory


@pytest.mark.parametrize("where", ["exp/corpus", "exp/data/mine", "exp/mine", "exp"])
def test_a_corpus_inside_exp_is_refused_and_stays(tmp_path, where):
    corpus = precious(tmp_path / where)
    for name in (corpus, Path(where), corpus / ".." / corpus.name):
        line = refused(DEMO, tmp_path, "--exp", "exp", "--corpus", name)
        assert "must not be inside --exp" in line or "that no recipe made" in line
    assert (corpus / "train.en").read_text() == "mine\n"


@pytest.mark.parametrize("name", ["bin", "corpus", "data", "help", "pieces", "tokens", "trees"])
@pytest.mark.parametrize("exp", [".", "link"])
def test_a_directory_with_folders_of_its_own_is_no_exp(tmp_path, name, exp):
    """Breaks if a recipe adds a folder that it deletes and does not say so."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "link").symlink_to("mine")
    kept = precious(tmp_path / ("mine" if exp == "link" else ".") / name)
    line = refused(DEMO, tmp_path, "--exp", exp)
    assert f"has a {name} that no recipe made" in line
    assert (kept / "train.en").read_text() == "mine\n"


def test_no_exp_is_not_this_directory(tmp_path):
    assert "--exp must be a directory, got ''" in refused(DEMO, tmp_path, "--exp", "")


@pytest.mark.parametrize(
    "exp", ["a:b", "a,b", "a\nb", "a${HOME}b", b"a\xffb".decode(errors="surrogateescape")]
)
def test_a_path_that_fairseq_would_take_apart_is_refused_at_the_start(tmp_path, exp):
    line = refused(DEMO, tmp_path, "--exp", exp)
    assert "--exp must be a path in UTF-8 without : , ${ and line ends" in line
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("exp", ["with space", "quote'd", 'two"quotes', "ümläut", "a$b", "-a"])
def test_other_paths_are_fine(tmp_path, exp):
    dry_run([DEMO, "--device", "cpu", "--exp", f"{tmp_path}/{exp}", "--system", "aiayn"])


def test_trees_inside_exp_are_refused_and_stay(tmp_path):
    (tmp_path / "exp" / ".done").mkdir(parents=True)
    trees = precious(tmp_path / "exp" / "trees")
    options = ("--exp", "exp", "--treebank", trees, "--lists", trees, "--dry_run")
    assert "--treebank must not be inside --exp" in refused(PARSING, tmp_path, *options)
    assert (trees / "train.en").exists()


@pytest.fixture
def held(tmp_path):
    """Return a function that writes the lock of an EXP and holds it, as what a killed run left
    does."""
    files = []

    def hold(content: str, name: str) -> Path:
        exp = tmp_path / name
        (exp / ".done").mkdir(parents=True)
        file = (exp / ".lock").open("w")
        file.write(content)
        file.flush()
        fcntl.flock(file, fcntl.LOCK_EX)
        files.append(file)
        return exp

    yield hold
    for file in files:
        file.close()


def test_a_lock_is_no_command_and_signals_nobody(tmp_path, held):
    """Breaks if what stands there is taken for arithmetic, or process group 1 for one.

    Each run waits for the lock, here a second instead of ten.
    """
    contents = (
        *("{host} 0 a[$(touch {mark})]", "{host} a[$(touch {mark})] 0", "{host} 99999999999 1"),
        *("{host} 1 1", "{host} -1 -1", "{host} $(touch${{IFS}}{mark}) 08", ""),
    )
    mark, kills = tmp_path / "mark", tmp_path / "kills"
    told = f"""
        kill() {{ echo "$@" >>{kills}; }}
        flock() {{ [[ $1 != -w ]] || set -- -w 1 "${{@:3}}"; command flock "$@"; }}
        export -f kill flock
    """
    runs = []
    for number, content in enumerate(contents):
        exp = held(content.format(host=os.uname().nodename, mark=mark), str(number))
        command = ["bash", "-c", f"{told} {DEMO} --exp {exp} --device cpu --needs_mb 1"]
        runs.append(subprocess.Popen(command, env=environment(), stderr=subprocess.PIPE, text=True))
    said = [run.communicate(timeout=PATIENCE)[1] for run in runs]
    assert [run.returncode for run in runs] == [1] * len(contents)
    assert all("another run holds" in lines for lines in said[:-1]), said
    assert "is already running" in said[-1], "of an empty lock, the host is another"
    assert not mark.exists()
    assert not kills.exists() or "-TERM" not in kills.read_text()


def test_a_record_is_there_whole_or_as_it_was_before(tmp_path):
    """Left empty by a kill, that of a training's options would say that they were others."""
    record, replaced = tmp_path / "record", tmp_path / "replaced"
    record.write_text("before\n")
    os.link(record, replaced)
    library = RECIPES / "lib" / "recipe.sh"
    subprocess.run(
        ["bash", "-c", f". {library}; write_whole {record} after"], check=True, cwd=tmp_path
    )
    assert (record.read_text(), replaced.read_text()) == ("after\n", "before\n")


LOCKED = f"""
. {RECIPES}/lib/recipe.sh
# Options
# End of options
recipe_options "$@"
recipe_begin
look() {{
    run bash -c 'read -r _ _ group <"$0"; echo "group $group of $(ps -o pgid= $$)"' "$exp/.lock"
}}
stage 1 look look
"""


def test_the_lock_knows_a_command_before_it_starts(tmp_path):
    """A run that is killed right then would leave a command that no later run ends."""
    script = write_tool(tmp_path / "sample" / "run.sh", LOCKED) / "run.sh"
    result = call([script, "--exp", tmp_path / "exp", "--needs_mb", "1"])
    found = re.search(r"group (\d+) of +(\d+)", result.stderr)
    assert found and found[1] == found[2], result.stderr

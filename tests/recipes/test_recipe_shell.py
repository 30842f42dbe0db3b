"""The shell library of all recipes: options, stages, commands, locks, downloads."""

import hashlib
import os
import re
import shlex
import shutil
import subprocess
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from mirrors import UNREACHABLE
from patience import PATIENCE
from recipe_runs import (
    RECIPES,
    alive,
    call,
    environment,
    failure,
    files_of,
    finish,
    kill_session,
    refusal,
    session_of,
    stages_run,
    start,
    wait_until,
    write_tool,
)

# Stages of a text, of a run and of all runs; what they read is in the directory above EXP.
SAMPLE = f"""
. {RECIPES}/lib.sh
# Options
exp=auto     # output directory
word=tea     # what is written, in
             # every stage
times=1      # how often
loud=false   # a switch
# End of options
read_options "$@"
require_whole 0 9 '' times
require_one_of word tea coffee "a b" "x'y"
open_exp "$root/exp/sample"
keep_options "$exp/options.txt" "$exp/.done" word
stage 1 make && {{
    run -o "$exp/first" cat "$exp/../input"
    run sh -c 'echo "$1" >"$2"' sh "$word" "$exp/second"
}}
stage 2 copy && run -i "$exp/second" -o "$exp/third" cat
end
begin "$exp/run"
keep_options "$exp/run/options.txt" "$exp/run/made" times
stage 3 count "$loud" && {{
    run -q mkdir -p "$exp/run/made"
    run -n count -o "$exp/run/made/count" sh -c 'cat "$1"; echo "$2"' sh "$exp/third" "$times"
}}
stage 4 last && run sh -c "${{LAST:-true}}"
end
begin "$exp"
stage 5 table && run true
end
"""
LATER = ["2-copy", "3-count", "4-last", "5-table"]


@pytest.fixture
def sample(tmp_path) -> list[str | Path]:
    (tmp_path / "input").write_text("1\n")
    script = write_tool(tmp_path / "sample", SAMPLE.replace("#!", "", 1)) / "sample"
    return [script, "--exp", tmp_path / "exp"]


def test_done_stages_are_skipped_and_a_second_run_changes_nothing(sample, tmp_path):
    assert stages_run(finish(sample).stderr) == ["1-make", *LATER]
    assert (tmp_path / "exp/run/made/count").read_text() == "tea\n1\n"
    with (tmp_path / "exp/options.txt").open("a") as file:
        file.write("gone='an option that recipes had once'\n")
    before = files_of(tmp_path / "exp")
    again = finish(sample)
    assert stages_run(again.stderr) == [] and again.stderr.count("is done, skipped") == 5
    assert files_of(tmp_path / "exp") == before


def test_a_stage_that_is_asked_for_runs_again_with_all_that_follow(sample, tmp_path):
    finish(sample)
    (tmp_path / "input").write_text("2\n")
    assert stages_run(finish([*sample, "--stage", "3"]).stderr) == LATER[1:]
    assert (tmp_path / "exp/first").read_text() == "1\n"
    stages = stages_run(finish([*sample, "--stage", "1", "--stop_stage", "1"]).stderr)
    assert stages == ["1-make"] and (tmp_path / "exp/first").read_text() == "2\n"
    assert stages_run(finish(sample).stderr) == LATER
    assert stages_run(finish([*sample, "--stage", "3", "--stop_stage", "3"]).stderr) == LATER[1:2]
    assert stages_run(finish(sample).stderr) == LATER[2:]


def test_a_value_that_may_change_runs_what_depends_on_it(sample):
    finish(sample)
    assert stages_run(finish([*sample, "--loud"]).stderr) == LATER[1:]
    assert stages_run(finish([*sample, "--loud", "true"]).stderr) == []


@pytest.mark.parametrize("option", [["--force"], ["--stage", "1"]])
def test_a_job_that_slurm_queued_again_goes_on_with_what_it_made(sample, option):
    finish(sample)
    assert stages_run(finish([*sample, *option], SLURM_RESTART_COUNT="1").stderr) == []


def test_only_what_the_recipe_left_unfinished_is_removed(sample, tmp_path):
    finish([*sample, "--stop_stage", "3"])
    theirs = [tmp_path / "exp/a.part", tmp_path / "exp/run/made.part"]
    left = [tmp_path / "exp/.part/first", tmp_path / "exp/run/.part/count"]
    for path in (*theirs, *left):
        path.parent.mkdir(exist_ok=True)
        path.touch()
    finish(sample)
    assert all(path.exists() for path in theirs) and not any(path.exists() for path in left)


def test_a_late_start_needs_the_stages_before_it(sample):
    assert "stage 1-make is not done: start with --stage 1" in refusal(call([*sample, "--stage=3"]))


@pytest.mark.parametrize(("name", "old", "other"), [("word", "tea", "coffee"), ("times", "1", "2")])
def test_other_options_do_not_replace_what_was_made_unless_forced(
    sample, tmp_path, name, old, other
):
    finish(sample)
    before = files_of(tmp_path / "exp")
    words = [*sample, f"--{name}", other]
    result = call(words)
    line = result.stderr.splitlines()[-1]
    assert result.returncode == 1
    assert f"was made with {name}='{old}', not with {name}='{other}'" in line
    assert "--exp" in line and "--force" in line
    assert files_of(tmp_path / "exp") == before
    assert "4-last" in stages_run(finish([*words, "--force"]).stderr)
    assert other in (tmp_path / "exp/run/made/count").read_text()


@pytest.mark.parametrize("word", ["a b", "x'y"])
def test_a_dry_run_makes_nothing_and_what_it_prints_makes_the_same(sample, tmp_path, word):
    script = finish([*sample, "--word", word, "--dry_run"]).stdout
    exp = tmp_path / "exp"
    assert not exp.exists()
    exp.mkdir()
    subprocess.run(["bash", "-eu"], input=script, text=True, check=True, cwd="/")
    pasted = (exp / "run/made/count").read_text()
    shutil.rmtree(exp)
    finish([*sample, "--word", word])
    assert (exp / "run/made/count").read_text() == pasted == f"{word}\n1\n"


def test_help_names_every_option_with_its_default(sample):
    text = finish([*sample, "--help"]).stdout
    for line in ("--word tea +what is written, in\n +every stage", "--stop_stage 99 "):
        assert re.search(line, text), line


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--wrod", "tea"], "unknown option --wrod: --help lists all"),
        (["--word"], "option --word needs a value"),
        (["tea"], "unexpected argument 'tea'"),
        (["--times", "x[$(touch mark)]"], "--times must be a whole number from 0 to 9"),
        (["--stage", "08"], "--stage must be a whole number from 0 to 99, got '08'"),
        (["--word", "a\nb"], "--word must be one of tea coffee a b x'y, got 'a b'"),
        (["--force=yes"], "unexpected argument 'yes'"),
        (["--dry_run", "true", "--force", "--mirror", "none"], "--mirror must be a directory"),
        (["--exp", "a:b"], "--exp must be a path in UTF-8 without"),
        (["--exp", ""], "--exp must be a path"),
    ],
)
def test_a_wrong_option_ends_the_recipe_with_one_line(sample, tmp_path, options, message):
    assert message in refusal(call([*sample, *options], tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["input", "sample"]


def test_an_exp_with_other_things_is_refused_and_they_stay(sample, tmp_path):
    (tmp_path / "exp" / "run").mkdir(parents=True)
    assert "holds other things than a recipe's" in refusal(call(sample))
    assert [path.name for path in (tmp_path / "exp").rglob("*")] == ["run"]


@pytest.mark.parametrize("exp", ["with space quote'd ümläut a$b", "-a"])
def test_odd_paths_are_fine(sample, tmp_path, exp):
    finish([*sample, "--exp", exp], tmp_path)
    assert (tmp_path / exp / "run/made/count").exists()


def test_a_failing_command_leaves_no_output_and_no_marker(sample, tmp_path):
    (tmp_path / "input").unlink()
    assert "No such file" in failure(call(sample), "1-make")
    assert not (tmp_path / "exp/first").exists() and not (tmp_path / "exp/.done").exists()
    (tmp_path / "input").write_text("1\n")
    assert stages_run(finish(sample).stderr)[0] == "1-make"


def test_a_full_disk_is_named_as_such(sample, tmp_path):
    """A limit on the size of files stands in for it; the log takes nothing more, either."""
    finish(sample)
    (tmp_path / "exp/run/recipe.log").write_bytes(bytes(99_999))
    limited = ("bash", "-c", "trap '' XFSZ; ulimit -f 40; exec \"$@\"", "-", *sample)
    result = call([*limited, "--stage", "4"], LAST=f"head -c 99999 /dev/zero >{tmp_path}/big")
    end = rf" stage 4-last failed with status \d: the disk of {tmp_path}/exp/run is full; log: "
    assert re.search(end, result.stderr.splitlines()[-1]) and result.returncode != 0


def start_last(sample: list, tmp_path: Path) -> tuple[subprocess.Popen, int, Path]:
    """Return a recipe in its last stage, a process of it that says when told to end, and errors."""
    errors, sign = tmp_path / "errors", tmp_path / "sign"
    told = f"trap 'touch {tmp_path}/told; exit' TERM; echo $$ >{sign}; sleep 600 & wait"
    process = start(list(map(str, sample)), errors, LAST=f"sh -c {shlex.quote(told)} & wait")
    wait_until(lambda: sign.exists() and sign.read_text() != "", process, errors)
    return process, int(sign.read_text()), errors


@pytest.mark.parametrize("how", ["all", "alone"])
def test_after_a_kill_no_command_is_left_and_the_same_command_goes_on(sample, tmp_path, how):
    process, child, _ = start_last(sample, tmp_path)
    if how == "all":
        kill_session(process)
    else:
        process.kill()
        process.wait()
        assert Path(f"/proc/{child}").exists()
    last = finish(sample)
    assert stages_run(last.stderr) == LATER[2:]
    assert (how == "alone") == ("it is stopped (group" in last.stderr)
    assert (how == "alone") == (tmp_path / "told").exists()
    assert session_of(child) is None


@pytest.mark.parametrize(("number", "options"), [("INT", []), ("TERM", ["--force"])])
def test_a_signal_stops_the_children_and_leaves_no_marker(sample, tmp_path, number, options):
    process, child, errors = start_last([*sample, *options], tmp_path)
    subprocess.run(["kill", f"-{number}", str(process.pid)], check=True)
    assert process.wait(PATIENCE) == {"INT": 130, "TERM": 143}[number]
    assert session_of(child) is None and (tmp_path / "told").exists()
    how = "begins again" if options else "without --force"  # what it replaces is still there
    assert f"interrupted in stage 4-last; the same command {how}" in errors.read_text()
    assert not (tmp_path / "exp/run/.done/4-last").exists()


def hold(lock: Path, content: str) -> subprocess.Popen:
    lock.parent.mkdir(parents=True, exist_ok=True)
    lock.write_text(content)
    words = ["flock", lock, "sh", "-c", f"echo >{lock}.held; exec sleep 600"]
    process = subprocess.Popen(words, start_new_session=True)
    wait_until(Path(f"{lock}.held").exists, process, lock)
    return process


@pytest.mark.parametrize(
    ("owner", "group"),
    [
        ("{host} {me}", 0),
        ("other-host 4", 0),
        ("{host} x[$(touch mark)]", 1),
        ("{host} 4190000", 2),
    ],
)
def test_a_run_that_somebody_works_in_is_left_alone(sample, tmp_path, owner, group):
    """Breaks if what stands in a lock is taken for arithmetic, process group 1 for one, or the
    numbers of another container for those of processes here."""
    finish([*sample, "--stop_stage", "2"])
    other = subprocess.Popen(["sleep", "600"], start_new_session=True)
    words = f"{owner.format(host=os.uname().nodename, me=os.getpid())} {(0, 1, other.pid)[group]}"
    holder = hold(tmp_path / "exp/run/.lock", words)
    result = call(sample, tmp_path, HOSTNAME="other-host")  # as of the shell that started it
    assert result.returncode == 1 and "is already running in" in result.stderr
    assert alive(holder.pid) and not (tmp_path / "mark").exists() and other.poll() is None
    for process in (holder, other):
        kill_session(process)


@pytest.mark.parametrize("name", [".lock", "recipe.log", "run/.lock", "run/train.log"])
def test_what_is_written_in_place_is_no_link(sample, tmp_path, name):
    finish([*sample, "--stop_stage", "2"])
    (tmp_path / "exp" / name).unlink(missing_ok=True)
    (tmp_path / "exp" / name).symlink_to(tmp_path / "input")
    result = call(sample)
    line = f"exp/{name} must be a plain file, which the recipe writes to, not a link"
    assert result.returncode == 1 and line in result.stderr.splitlines()[-1]
    assert (tmp_path / "input").read_text() == "1\n"


def test_text_that_another_recipe_makes_is_waited_for(sample, tmp_path):
    finish([*sample, "--stop_stage", "2"])
    holder = hold(tmp_path / "exp/.lock", f"{os.uname().nodename} {os.getpid()} 0")
    errors = tmp_path / "errors"
    process = start(list(map(str, sample)), errors)
    wait_until(lambda: "waits for process" in errors.read_text(), process, errors)
    kill_session(holder)
    assert process.wait(PATIENCE) == 0


def test_python_imports_nothing_from_the_users_directory_or_a_scripts(tmp_path):
    copy = shutil.copytree(RECIPES, tmp_path / "copied/recipes")
    for name in ("tqdm", "fairseq_aiayn", "json", "random", "runpy"):
        for place in (tmp_path, copy, copy / "demo"):
            (place / f"{name}.py").write_text(f"open('{tmp_path}/mark', 'w')\n")
    prepare = f"python {copy}/demo/prepare.py --help"
    for command in (f"{copy}/multi30k/run.sh --dry_run", f". {copy}/lib.sh; {prepare}"):
        assert call(["bash", "-c", command]).returncode == 0
    words = [RECIPES / "multi30k/run.sh", "--dry_run", "--device", "cpu"]
    for path in ("", "::"):
        finish(words, tmp_path, PYTHONPATH=path)
    finish([RECIPES / "table3/run.sh", "--rows", "base", "--dry_run"], tmp_path)
    module = ["python", RECIPES / "module.py", "fairseq_aiayn.corpus.moses", "--language", "en"]
    result = call(["bash", "-c", f". {RECIPES}/lib.sh; {shlex.join(map(str, module))} </dev/null"])
    assert result.returncode == 0 and not (tmp_path / "mark").exists()


def test_only_the_active_environment_or_the_one_that_is_named_is_used(tmp_path):
    words = [shutil.copytree(RECIPES, tmp_path / "recipes") / "multi30k/run.sh", "--dry_run"]
    for name in (".venv", "fairseq_aiayn", "mine"):
        (tmp_path / name).mkdir()
    write_tool(tmp_path / ".venv/bin/aiayn", f"touch {tmp_path}/mark\n")
    shown = finish(words, tmp_path).stdout
    assert f"--user-dir {RECIPES.parent}/fairseq_aiayn " in shown
    assert not (tmp_path / "mark").exists() and f"{tmp_path}/." not in shown
    real = shutil.which("aiayn", path=environment()["PATH"])
    body = f'[[ $1 == user-dir ]] && echo /mine/fairseq_aiayn || exec {real} "$@"\n'
    write_tool(tmp_path / "mine/bin/aiayn", body)
    shown = finish([*words, "--venv", "mine"], tmp_path).stdout
    assert shown.startswith(f"export PATH={tmp_path}/mine/bin:") and "--user-dir /mine/" in shown
    assert "--venv must have bin/aiayn, got '.'" in refusal(call([*words, "--venv", "."], tmp_path))
    without = {"PATH": "/usr/bin:/bin"}
    assert ": aiayn is not on PATH: " in refusal(call(words, tmp_path, **without))
    assert "--venv" in finish([*words, "--help"], **without).stdout


@pytest.mark.parametrize("names", ["SLURM_RESTART_COUNT SLURM_JOB_ID", "SLURM_ARRAY_TASK_ID"])
def test_an_environment_variable_is_not_evaluated(tmp_path, names):
    words = [RECIPES / "table3/run.sh", "--rows", "base", "--dry_run"]
    call(words, tmp_path, **dict.fromkeys(names.split(), "x[$(touch mark)]"))
    assert list(tmp_path.iterdir()) == []


# --- downloads ---

CONTENT = b"0123456789" * 1000
SUM = f"sha256:{hashlib.sha256(CONTENT).hexdigest()}"


@pytest.fixture
def served():
    ranges: list[str | None] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            ranges.append(self.headers["Range"])
            begin = int((self.headers["Range"] or "bytes=0-").removeprefix("bytes=").rstrip("-"))
            if begin >= len(CONTENT):
                self.send_error(416)
                return
            self.send_response(206 if self.headers["Range"] else 200)
            self.send_header("Content-Length", str(len(CONTENT) - begin))
            self.send_header("Content-Range", f"bytes {begin}-{len(CONTENT) - 1}/{len(CONTENT)}")
            self.end_headers()
            self.wfile.write(CONTENT[begin : begin + 4000])

        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/file", ranges
    server.shutdown()
    server.server_close()


@pytest.fixture
def fetch(tmp_path):
    body = f"""
. {RECIPES}/lib.sh
# Options
url= # address
sum= # checksum
size= # bytes
# End of options
read_options "$@"
open_exp x
stage 1 download && download "$url" "$exp/downloads/file" "$sum" "$size"
end
"""
    script = write_tool(tmp_path / "tools" / "get", body) / "get"

    def get(url: str, total: str, *options: object) -> subprocess.CompletedProcess:
        return call([script, "--exp", tmp_path / "exp", "--url", url, "--sum", total, *options])

    return get


def test_only_the_web_is_asked_and_for_no_more_than_the_manifest_says(served, fetch, tmp_path):
    url, ranges = served
    nobody, file = f"{UNREACHABLE}/file", f"file://{tmp_path}/tools/get"
    for address, *size in ((url, "--size", "9999"), (file,), (nobody,)):
        line = fetch(address, SUM, *size).stderr.splitlines()[-1]
        assert f"cannot download {address}" in line and "--mirror DIR" in line
        assert not [*(tmp_path / "exp/downloads").glob("file*")]
    assert fetch(url, SUM, "--size", "10000").returncode == 0 and ranges


@pytest.mark.parametrize("there", [0, 5000, len(CONTENT)])
def test_a_download_goes_on_where_it_stopped_and_is_checked(served, fetch, tmp_path, there):
    """Also where the file is whole, but has not got its name."""
    url, ranges = served
    if there:
        (tmp_path / "exp/.done").mkdir(parents=True)
        (tmp_path / "exp/downloads").mkdir()
        (tmp_path / "exp/downloads/file.part").write_bytes(CONTENT[:there])
    assert fetch(url, SUM).returncode == 0
    assert (tmp_path / "exp/downloads/file").read_bytes() == CONTENT
    begins = [None, *range(4000, len(CONTENT), 4000)] if not there else range(there, 10_001, 4000)
    assert {begin and f"bytes={begin}-" for begin in begins} <= set(ranges)


def test_a_wrong_download_is_refused_and_does_not_stay(served, fetch, tmp_path):
    result = fetch(served[0], f"md5:{hashlib.md5(b'other').hexdigest()}")
    assert result.returncode == 1 and "the checksum is not" in result.stderr.splitlines()[-1]
    assert not [*(tmp_path / "exp/downloads").glob("file*")]


def test_a_file_of_the_mirror_is_linked_and_checked(fetch, tmp_path):
    mirror = tmp_path / "mirror"
    mirror.mkdir()
    (mirror / "file").write_bytes(CONTENT)
    assert fetch(f"{UNREACHABLE}/file", SUM, "--mirror", mirror).returncode == 0
    assert (tmp_path / "exp/downloads/file").resolve() == mirror / "file"
    (mirror / "file").write_bytes(CONTENT[:-1])
    result = fetch(f"{UNREACHABLE}/file", SUM, "--mirror", mirror, "--stage", "1")
    assert result.returncode == 1 and "the checksum is not" in result.stderr
    assert (mirror / "file").exists()

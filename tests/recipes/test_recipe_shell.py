"""recipes/lib/recipe.sh, by small recipes that use it."""

import hashlib
import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest
from patience import PATIENCE
from recipe_runs import (
    RECIPES,
    in_front,
    refusal,
    session_of,
    stages_run,
    without_fork_server,
    write_tool,
)

LIBRARY = RECIPES / "lib" / "recipe.sh"

THREE_STAGES = """
size=3       # how large
colour=red   # which colour,
             # in English
bright=false # a switch
# End of options
recipe_options "$@"
recipe_begin
write_size() { run -o "$exp/size" echo "$size"; }
write_colour() { run -o "$exp/colour" echo "$colour"; }
join() { run -i "$exp/colour" -o "$exp/both" cat "$exp/size" -; }
stage 1 size write_size size
stage 2 colour write_colour colour
stage 3 both join
"""


@pytest.fixture
def recipe(tmp_path):
    """Return a function that writes a recipe and gives the command that runs it."""

    def write(body: str) -> list[str]:
        text = f"# A sample.\n\n. {LIBRARY}\n\n# Options\n{body}"
        script = write_tool(tmp_path / "sample" / "run.sh", text) / "run.sh"
        return [str(script), "--exp", str(tmp_path / "exp"), "--needs_mb", "1"]

    return write


def call(command, *arguments, **environment):
    return subprocess.run(
        [*command, *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        env={**os.environ, **environment},
    )


def start(command, waiting_for: Path) -> subprocess.Popen:
    """Start a recipe and return when it has made a file."""
    # A shell in the background ignores SIGINT, and bash cannot trap what it was told to ignore.
    process = subprocess.Popen(
        ["env", "--default-signal=INT", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + PATIENCE
    while not waiting_for.exists():
        assert time.monotonic() < deadline and process.poll() is None, process.communicate()
        time.sleep(0.02)
    return process


def test_unchanged_stages_are_skipped_and_a_changed_option_runs_all_that_follows(recipe, tmp_path):
    command = recipe(THREE_STAGES)
    first = call(command)
    assert first.returncode == 0, first.stderr
    assert stages_run(first.stderr) == ["1-size", "2-colour", "3-both"]
    assert (tmp_path / "exp" / "both").read_text() == "3\nred\n"

    again = call(command)
    assert stages_run(again.stderr) == []
    assert again.stderr.count("is done, skipped") == 3

    changed = call(command, "--colour", "blue")
    assert stages_run(changed.stderr) == ["2-colour", "3-both"]
    assert (tmp_path / "exp" / "both").read_text() == "3\nblue\n"

    earlier = call(command, "--colour=blue", "--size", "4", "--stop_stage", "1")
    assert stages_run(earlier.stderr) == ["1-size"]
    # Stages 2 and 3 have their own options unchanged, but stand on another stage 1.
    later = call(command, "--colour", "blue", "--size", "4")
    assert stages_run(later.stderr) == ["2-colour", "3-both"]

    forced = call(command, "--colour", "blue", "--size", "4", "--stage", "3", "--force")
    assert stages_run(forced.stderr) == ["3-both"]


def test_an_edited_stage_runs_again(recipe):
    call(recipe(THREE_STAGES))
    edited = THREE_STAGES.replace('cat "$exp/size" -', 'cat - "$exp/size"')
    assert stages_run(call(recipe(edited)).stderr) == ["3-both"]


def test_a_late_start_needs_the_stages_before_it(recipe):
    result = call(recipe(THREE_STAGES), "--stage", "3")
    assert result.returncode == 1
    assert "stage 1-size is not done with these options: start with --stage 1" in result.stderr


def test_dry_run_prints_every_command_and_makes_nothing(recipe, tmp_path):
    result = call(recipe(THREE_STAGES), "--dry_run", "--colour", "light blue")
    exp = tmp_path / "exp"
    assert result.returncode == 0
    assert result.stdout.splitlines() == [
        "# stage 1-size",
        f"echo 3 > {exp}/size",
        "# stage 2-colour",
        f"echo 'light blue' > {exp}/colour",
        "# stage 3-both",
        f"cat {exp}/size - < {exp}/colour > {exp}/both",
    ]
    assert not exp.exists()


def test_help_names_every_option_with_its_default(recipe):
    result = call(recipe(THREE_STAGES), "--help")
    assert result.returncode == 0
    assert "A sample." in result.stdout
    for option in ("--size 3", "--colour red", "in English", "--bright false", "--dry_run false"):
        assert option in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--sise", "4"], "run.sh: unknown option --sise; --help lists the options"),
        (["--HOME", "x"], "run.sh: unknown option --HOME; --help lists the options"),
        (["--recipe_lib", "x"], "run.sh: unknown option --recipe_lib; --help lists the options"),
        (["now"], "run.sh: unexpected argument 'now'; --help lists the options"),
        (["--size"], "run.sh: option --size needs a value"),
        (["--stage", "two"], "run.sh: --stage must be a whole number, got 'two'"),
        (["--force", "--stage", "08"], "run.sh: --stage must be a whole number, got '08'"),
        (["--needs_mb", "99999999999"], "99999999999 MB needed (--needs_mb)"),
    ],
)
def test_a_wrong_option_ends_the_recipe_with_one_line(recipe, tmp_path, arguments, message):
    assert message in refusal(call(recipe(THREE_STAGES), *arguments))
    assert not (tmp_path / "exp" / "size").exists()


def test_a_directory_that_cannot_be_written_is_one_line(recipe, tmp_path):
    (tmp_path / "file").touch()
    line = refusal(call(recipe(THREE_STAGES), "--exp", str(tmp_path / "file" / "exp")))
    assert "cannot write to" in line


@pytest.mark.parametrize("flag", ["", "-q", "-p"])
def test_a_failing_command_leaves_no_output_and_no_marker(recipe, tmp_path, flag):
    body = f"""
# End of options
recipe_options "$@"
recipe_begin
fail() {{ run {flag} -o "$exp/made" sh -c 'echo half; echo "no such thing" >&2; exit 3'; }}
stage 1 broken fail
stage 2 never fail
"""
    result = call(recipe(body))
    exp = tmp_path / "exp"
    assert result.returncode == 3
    last = result.stderr.splitlines()[-1]
    assert " run.sh:11 stage 1-broken failed with status 3" in last
    assert last.endswith(f"; log: {exp}/log/1-broken.log")
    assert "no such thing" in (last if flag else result.stderr)  # once, hidden output or not
    assert "no such thing" in (exp / "log" / "1-broken.log").read_text()
    assert not (exp / "made").exists()
    assert not (exp / ".done" / "1-broken").exists()
    assert "never" not in result.stderr


RESUMABLE = """
steps=1 # an option of the stage
# End of options
recipe_options "$@"
recipe_begin
work() {
    [[ $recipe_resuming == true ]] || run -q rm -rf "$exp/work"
    run -q mkdir -p "$exp/work"
    run touch "$exp/work/begun"
    if [[ ! -e $exp/fast ]]; then
        run sh -c "echo \\$\\$ >$exp/pid; touch $exp/running; sleep 600"
    fi
    run touch "$exp/work/finished"
}
stage 1 work work steps
"""


@pytest.mark.parametrize(
    ("number", "status", "options", "advice"),
    [
        (signal.SIGINT, 130, [], "the same command goes on"),
        (signal.SIGTERM, 143, ["--force"], "the same command without --force goes on"),
    ],
)
def test_an_interrupt_stops_the_children_and_leaves_no_marker(
    recipe, tmp_path, number, status, options, advice
):
    exp = tmp_path / "exp"
    process = start([*recipe(RESUMABLE), *options], exp / "running")
    process.send_signal(number)
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == status
    assert f"interrupted in stage 1-work; {advice} from there" in errors
    assert session_of(int((exp / "pid").read_text())) is None
    assert not (exp / ".done" / "1-work").exists()


def test_after_a_kill_the_same_options_go_on_and_others_begin_anew(recipe, tmp_path):
    exp = tmp_path / "exp"
    command = recipe(RESUMABLE)
    process = start(command, exp / "running")
    second = call(command)
    assert second.returncode == 1
    assert f"process {process.pid} on {socket.gethostname()} is already running in {exp}" in (
        second.stderr
    )
    process.kill()
    process.wait()  # but not for the end of its output, which its child holds open
    left_behind = int((exp / "pid").read_text())
    assert session_of(left_behind) is not None

    (exp / "fast").touch()
    (exp / "work" / "checkpoint").touch()
    resumed = call(command)
    assert resumed.returncode == 0, resumed.stderr
    assert "stopping the command it left behind" in resumed.stderr
    assert stages_run(resumed.stderr) == ["1-work"]
    assert session_of(left_behind) is None
    assert (exp / "work" / "checkpoint").exists()

    changed = call(command, "--steps", "2")
    assert changed.returncode == 0
    assert (exp / "work" / "finished").exists()
    assert not (exp / "work" / "checkpoint").exists()


def test_a_run_on_another_host_is_left_alone(recipe, tmp_path):
    exp = tmp_path / "exp"
    command = recipe(RESUMABLE)
    process = start(command, exp / "running")
    process.kill()
    process.wait()
    left_behind = int((exp / "pid").read_text())
    # Its process numbers mean nothing here.
    lock = (exp / ".lock").read_text().split()
    (exp / ".lock").write_text(" ".join(["elsewhere", *lock[1:]]))
    refused = call(command)
    assert refused.returncode == 1
    assert f"process {process.pid} on elsewhere is already running in {exp}" in refused.stderr
    assert session_of(left_behind) is not None
    os.killpg(int(lock[2]), signal.SIGKILL)


DOWNLOAD = """
url=      # where from
sum=      # its checksum
bytes=-   # its size
# End of options
recipe_options "$@"
recipe_begin
fetch() { download "$url" "$exp/downloads/file.bin" "$sum" "$bytes"; }
stage 1 fetch fetch url sum bytes
"""


def test_download_goes_on_where_it_stopped_and_is_checked(recipe, tmp_path):
    content = bytes(range(256)) * 64
    remote = tmp_path / "file.bin"
    remote.write_bytes(content)
    part = tmp_path / "exp" / "downloads" / "file.bin.part"
    part.parent.mkdir(parents=True)
    # Not what the server has: it shows that the rest was added to it, and that it is checked.
    part.write_bytes(b"x" + content[1:1000])
    options = ("--url", remote.as_uri(), "--bytes", str(len(content)))
    options += ("--sum", f"sha256:{hashlib.sha256(content).hexdigest()}")
    assert "the sha256 checksum is not" in call(recipe(DOWNLOAD), *options).stderr
    part.write_bytes(content[:1000])
    result = call(recipe(DOWNLOAD), *options)
    assert result.returncode == 0, result.stderr
    assert part.with_suffix("").read_bytes() == content
    assert not part.exists()


def test_a_full_disk_is_named(recipe, tmp_path):
    # df says that there is room at the start and none when the command fails.
    df = (
        f"if [ -e {tmp_path}/exp/failed ]; then free=0; else free=9000; fi\n"
        'echo header; echo "disk 9000 0 $free 100% /"\n'
    )
    tools = write_tool(tmp_path / "bin" / "df", df)
    body = """
# End of options
recipe_options "$@"
recipe_begin
fail() { run -q sh -c "touch $exp/failed; exit 1"; }
stage 1 full fail
"""
    result = call(recipe(body), **in_front(tools, without_fork_server()))
    assert result.returncode == 1
    assert f"no space left on the disk of {tmp_path}/exp (0 MB free)" in result.stderr


def test_a_file_that_vanishes_while_exp_is_measured_ends_nothing(recipe, tmp_path):
    warns = "echo 'du: no such file' >&2; printf '7\\t%s\\n' \"$2\"; exit 1\n"
    tools = write_tool(tmp_path / "bin" / "du", warns)
    result = call(recipe(THREE_STAGES), **in_front(tools, without_fork_server()))
    assert result.returncode == 0, result.stderr
    assert "du:" not in result.stderr
    write_tool(tmp_path / "bin" / "du", "exit 1\n")
    assert call(recipe(THREE_STAGES), **in_front(tools, without_fork_server())).returncode == 0


def test_python_reads_and_writes_utf8_whatever_the_environment_says(recipe, tmp_path):
    body = """# End of options
recipe_options "$@"
recipe_begin
write() { run -o "$exp/text" python -c 'print("\\u00fc")'; }
stage 1 text write
"""
    environment = {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "C"}
    result = call(recipe(body), **environment)
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "exp" / "text").read_bytes() == "ü\n".encode()

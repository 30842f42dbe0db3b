"""Recipes as a user starts them, on miniatures of what they download."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import fork_server
from patience import PATIENCE

RECIPES = Path(__file__).parents[1] / "recipes"
# The smallest row with one layer a stack, trained for six updates.
SHORT = (
    *("--row", "tiny", "--max_update", "6", "--interval", "2", "--average", "2"),
    *("--batch_tokens", "256", "--train_options", "--encoder-layers 1 --decoder-layers 1"),
)


def mirrored(recipe: str, manifest: Path, *options: str | Path) -> list[str]:
    places = ("--manifest", manifest, "--mirror", manifest.parent)
    words = [RECIPES / recipe / "run.sh", *places, "--workers", "1", "--device", "cpu", *options]
    return [str(word) for word in words]


def environment(**values: str) -> dict[str, str]:
    """Return the environment of a recipe, with nothing in it that changes what it does."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("AIAYN_", "CUDA_", "SLURM_"))
        and not name.lower().endswith("_proxy")
    }
    return {**kept, "OMP_NUM_THREADS": "1", **with_fork_server(), **values}


def call(
    words: Sequence[object], directory: Path | None = None, /, **values: str
) -> subprocess.CompletedProcess:
    return subprocess.run(
        [str(word) for word in words],
        capture_output=True,
        text=True,
        errors="surrogateescape",
        timeout=600,
        check=False,
        cwd=directory,
        env=environment(**values),
    )


def finish(
    words: Sequence[object], directory: Path | None = None, **values: str
) -> subprocess.CompletedProcess:
    result = call(words, directory, **values)
    assert result.returncode == 0, result.stderr
    return result


def script(path: Path, *arguments: object) -> subprocess.CompletedProcess:
    return call([sys.executable, path, *arguments])


def with_fork_server() -> dict[str, str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return in_front(fork_server.programs(), {"PATH": path})


def in_front(directory: Path, variables: dict[str, str]) -> dict[str, str]:
    """Return variables in which the programs of a directory come before all others."""
    return variables | {"PATH": f"{directory}:{variables['PATH']}"}


def with_holds(directory: Path) -> dict[str, str]:
    """Return variables with which a recipe cannot end the stage HELD, and the command HELD_COMMAND
    stays when it has done its work, until they are killed."""
    directory.mkdir()
    # A stage is done when its marker gets its name.
    marks = '[[ ${!#} != */.done/"$HELD" ]] || sleep 600\n'
    write_tool(directory / "mv", f'{marks}exec /bin/mv "$@"\n')
    for name in fork_server.MODULES:
        body = f'{fork_server.programs()}/{name} "$@" || exit\n'
        write_tool(directory / name, f"{body}[[ $HELD_COMMAND != {name} ]] || sleep 600\n")
    return in_front(directory, with_fork_server())


def lines_of(path: Path) -> list[str]:
    """Return the lines of a text; only a line feed ends one."""
    return path.read_bytes().decode().split("\n")[:-1]


def stages_run(stderr: str) -> list[str]:
    return re.findall(r" stage (\d+-\S+), \S+$", stderr, re.MULTILINE)


def refusal(result: subprocess.CompletedProcess) -> str:
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.count("\n") == 1, result.stderr
    return result.stderr.removesuffix("\n")


def failure(result: subprocess.CompletedProcess, stage: str) -> str:
    """Return what the command said that failed in a stage, as the last line repeats it."""
    last = result.stderr.splitlines()[-1]
    found = re.search(rf" stage {stage} failed with status \d+: (.*); log: /\S+\.log$", last)
    assert result.returncode != 0 and found, result.stderr
    assert "Traceback" not in result.stderr
    return found[1]


def files_of(directory: Path) -> dict[str, tuple[int, int]]:
    """Return the size and the time of every file but those that each run writes to."""
    return {
        str(path.relative_to(directory)): (path.stat().st_size, path.stat().st_mtime_ns)
        for path in directory.rglob("*")
        if path.is_file() and path.name not in ("recipe.log", ".lock", "options.txt")
    }


def start(words: list[str], errors: Path, **values: str) -> subprocess.Popen:
    with errors.open("w") as stream:
        return subprocess.Popen(
            words,
            stdout=subprocess.DEVNULL,
            stderr=stream,
            start_new_session=True,
            env=environment(**values),
        )


def wait_until(ready: Callable[[], bool], process: subprocess.Popen, errors: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while not ready():
        assert process.poll() is None and time.monotonic() < deadline, errors.read_text()
        time.sleep(0.005)


def kill_session(process: subprocess.Popen) -> None:
    """Kill all that a command started, whatever its process group, as a lost machine would."""
    while members := [
        pid for pid in os.listdir("/proc") if pid.isdigit() and session_of(pid) == process.pid
    ]:
        for pid in members:
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        process.poll()
    process.wait()


def session_of(pid: int | str) -> int | None:
    """Return the session of a process, None for one that has ended."""
    try:
        state, _, _, session, *_ = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if state == "Z" else int(session)


# A recipe that only trains, on the binaries in EXP/bin.
TRAINING_SAMPLE = f"""
. {RECIPES}/training.sh
# Options
row=tiny # as the name says
average=1 # checkpoints
# End of options
read_options "$@"
check_training
open_exp sample
end
corpus_name=sample seed=1
begin_run ''
stage 5 train && launch fairseq-train "$exp/bin" --save-dir "$dir/checkpoints"
end
"""


def write_tool(path: Path, body: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/bash\n{body}")
    path.chmod(0o755)
    return path.parent


def alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True

"""Attacks on recipes: kills, two runs at once, a full disk, clocks, locales, closed pipes.

fairseq's commands are the stand-ins of the tests, but for `attack_whole`, which trains.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import recipe_runs

from torture.attempt import Attempt, digest, judge, tail
from torture.materials import Materials
from torture.options import RECIPES, VALUES, declared
from torture.server import Result
from torture.undisturbed import Undisturbed, results

LIMIT = 300  # seconds of a run
YEARS = 10 * 365 * 24 * 3600


def attack_whole(attempt: Attempt, materials: Materials) -> None:
    """Kill the demo at random and let it go on."""
    _killed(attempt, materials.demo)


def attack(attempt: Attempt, materials: Materials) -> None:
    """Disturb a recipe in one of the ways."""
    ways = (_killed, _twice, _full_disk, _clock, _locale, _pipes, _read_only, _changed, _options)
    attempt.rng.choice(ways)(attempt, materials.wmt)


def _killed(attempt: Attempt, whole: Undisturbed) -> None:
    """kill -9 of all or of the recipe alone, Ctrl-C and TERM, at any time, up to four times."""
    rng, exp = attempt.rng, attempt.directory / "exp"
    if rng.random() < 0.5:  # begin late: stages from one on have to be made again
        _copy(whole.exp, exp, attempt)
        stages = _marks(exp)
        for stage in stages[rng.randrange(len(stages)) :]:
            stage.unlink()
    for _ in range(rng.choice((1, 2, 4))):
        process = _start(attempt, whole.words_for(exp), whole.variables)
        try:
            process.wait(rng.uniform(0, whole.seconds))
        except subprocess.TimeoutExpired:
            kind = rng.choice(("all", "all", "alone", signal.SIGINT, signal.SIGTERM))
            if kind == "all":
                recipe_runs.kill_session(process)
            elif kind == "alone":
                process.kill()
            else:
                os.killpg(process.pid, kind)
        try:
            process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            attempt.fault("a recipe that was told to end did not")
            recipe_runs.kill_session(process)
    _ends_well(attempt, whole, exp)
    _nothing_left(attempt, exp)


def _twice(attempt: Attempt, whole: Undisturbed) -> None:
    """Two of the same at once: one works, the other works or says why not."""
    exp = attempt.directory / "exp"
    processes = []
    for _ in range(2):
        processes.append(_start(attempt, whole.words_for(exp), whole.variables))
        time.sleep(attempt.rng.choice((0, 0.1, 1, 3)))
    ended = []
    for number, process in enumerate(processes):
        try:
            ended.append(process.wait(LIMIT))
        except subprocess.TimeoutExpired:
            recipe_runs.kill_session(process)
            attempt.fault("one of two runs did not end")
            continue
        stderr = (attempt.directory / f"stderr-{number + 1}").read_text(errors="replace")
        _judge(attempt, ended[-1], stderr)
    if 0 not in ended:
        attempt.fault(f"neither of two runs ended well: {ended}")
    _ends_well(attempt, whole, exp)


def _full_disk(attempt: Attempt, whole: Undisturbed) -> None:
    """A limit on the size of files stands for the disk."""
    exp = attempt.directory / "exp"
    kib = attempt.rng.choice((1, 2, 4, 8, 16, 40))
    limited = ["bash", "-c", f'trap "" XFSZ; ulimit -f {kib}; exec "$@"', "bash"]
    _call(attempt, [*limited, *whole.words_for(exp)], whole.variables)
    _ends_well(attempt, whole, exp)


def _clock(attempt: Attempt, whole: Undisturbed) -> None:
    """Files have times of other years; then one stage's mark is lost."""
    exp = attempt.directory / "exp"
    _copy(whole.exp, exp, attempt)
    for path in exp.rglob("*"):
        if path.is_file():
            then = time.time() + attempt.rng.uniform(-YEARS, YEARS)
            os.utime(path, (then, then))
    if attempt.rng.random() < 0.7:
        attempt.rng.choice(_marks(exp)).unlink()
    _ends_well(attempt, whole, exp)


def _locale(attempt: Attempt, whole: Undisturbed) -> None:
    """No locale, or one that is not there."""
    value = attempt.rng.choice(("C", "POSIX", "xx_YY.UTF-8", "tr_TR.UTF-8", ""))
    variables = {"LC_ALL": value, "LANG": value, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    variables |= {"PYTHONIOENCODING": "ascii"} if attempt.rng.random() < 0.5 else {}
    exp = attempt.directory / "exp"
    status = _call(attempt, whole.words_for(exp), whole.variables | variables)
    if status:
        attempt.fault(f"failed with the locale {variables}")
    _ends_well(attempt, whole, exp)


def _pipes(attempt: Attempt, whole: Undisturbed) -> None:
    """Standard streams that are closed, or whose reader goes away."""
    exp = attempt.directory / "exp"
    how = ('"$@" <&-', '"$@" >&-', '"$@" 2>&-', '"$@" <&- >&- 2>&-', '"$@" 2>&1 | head -c 200')
    script = f"set -o pipefail; {attempt.rng.choice(how)}"
    _call(attempt, ["bash", "-c", script, "bash", *whole.words_for(exp)], whole.variables, False)
    _ends_well(attempt, whole, exp)


def _read_only(attempt: Attempt, whole: Undisturbed) -> None:
    """EXP cannot be written to; it is empty, or of a run that has one stage to do."""
    exp = attempt.directory / "exp"
    if attempt.rng.random() < 0.5:
        _copy(whole.exp, exp, attempt)
        attempt.rng.choice(_marks(exp)).unlink()
    else:
        exp.mkdir()
    mount = ["unshare", "-m", "sh", "-c", 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0"']
    if subprocess.run([*mount, str(exp)], capture_output=True, check=False).returncode:
        return  # only root can have a file system that is read-only for one command
    files = {path: digest(path) for path in exp.rglob("*") if path.is_file()}
    mount[-1] += ' && exec "$@"'
    status = _call(attempt, [*mount, str(exp), *whole.words_for(exp)], whole.variables)
    if not status:
        attempt.fault("ended well, but could not write")
    if any(digest(path) != before for path, before in files.items()):
        attempt.fault("changed what it may not write to")


def _changed(attempt: Attempt, whole: Undisturbed) -> None:
    """What a recipe has written is damaged, or gone, behind its back: it must notice."""
    rng, exp = attempt.rng, attempt.directory / "exp"
    _copy(whole.exp, exp, attempt)
    paths = sorted(path for path in exp.rglob("*") if path.is_file() and "bin" in path.parts)
    own = [path for path in exp.rglob("*") if path.is_file() and path.name.startswith(".")]
    path = rng.choice(paths if rng.random() < 0.5 else sorted(own))
    if rng.random() < 0.5:
        path.unlink()
    else:
        path.write_bytes(rng.choice((b"", b"x[$(touch executed)]\n", rng.randbytes(40))))
    attempt.mark = exp / "executed"
    status = _call(attempt, whole.words_for(exp), whole.variables)
    if not status and results(exp) != whole.results:
        attempt.fault(f"went on with a damaged {path.relative_to(exp)}")


def _options(attempt: Attempt, whole: Undisturbed) -> None:
    """Wrong values of the options of all recipes, which are not run."""
    for _ in range(8):
        recipe = attempt.rng.choice(RECIPES)
        option, value = attempt.rng.choice(declared(recipe)), attempt.rng.choice(VALUES)
        words = [recipe, "--dry_run", "--exp", attempt.directory / "exp", f"--{option}", value]
        _call(attempt, [str(word) for word in words], whole.variables)
        if (attempt.directory / "exp").exists():
            attempt.fault(f"a dry run made EXP: --{option} {value[:60]!r}")


# --- what they share ---


def _copy(source: Path, exp: Path, attempt: Attempt) -> None:
    """Copy a finished EXP; what it has noted of its own place is written anew."""
    shutil.copytree(source, exp)
    for path in [*exp.glob(".done/*"), *exp.glob("*/*.json"), *exp.glob("*/.*")]:
        text = path.read_text(errors="surrogateescape")
        path.write_text(text.replace(str(source), str(exp)), errors="surrogateescape")


def _marks(exp: Path) -> list[Path]:
    """The marks of finished stages; without that of a training, a recipe refuses to replace it."""
    return [path for path in sorted((exp / ".done").iterdir()) if "train" not in path.name]


def _start(attempt: Attempt, words: Sequence[str], variables: dict[str, str]) -> subprocess.Popen:
    attempt.commands += 1
    number = len(list(attempt.directory.glob("stderr-*"))) + 1
    return recipe_runs.start(list(words), attempt.directory / f"stderr-{number}", **variables)


def _call(
    attempt: Attempt,
    words: Sequence[str],
    variables: dict[str, str],
    speaks: bool = True,
) -> int:
    """Run a command to its end, judge how it ended and return its status."""
    attempt.commands += 1
    process = subprocess.Popen(
        list(words), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
        start_new_session=True, cwd=attempt.directory,
        env=recipe_runs.environment(**variables),
    )  # fmt: skip
    try:
        stderr = process.communicate(timeout=LIMIT)[1].decode(errors="replace")
    except subprocess.TimeoutExpired:
        recipe_runs.kill_session(process)
        attempt.fault(f"did not end: {shlex.join(words)}")
        return 1
    _judge(attempt, process.returncode, stderr, speaks, words)
    return process.returncode


def _judge(
    attempt: Attempt, status: int, stderr: str, speaks: bool = True, words: Sequence[str] = ()
) -> None:
    for what in judge(Result(status, b"", _last(stderr), False, 0), str(attempt.directory), speaks):
        attempt.fault(f"{what} (status {status}) {shlex.join(words)[-300:]}\n    {tail(stderr)}")


def _last(stderr: str) -> str:
    """A recipe's lines begin with the time and the place; take both off the last."""
    lines = stderr.rstrip().splitlines() or [""]
    head, _, rest = lines[-1].partition(".sh:")
    if rest and head[:2] == "20":
        lines[-1] = "run.sh: " + rest.partition(" ")[2]
    return "\n".join(lines)


def _ends_well(attempt: Attempt, whole: Undisturbed, exp: Path) -> None:
    """Run the same command to its end: it comes to what an undisturbed one comes to."""
    done = recipe_runs.call(whole.words_for(exp), **whole.variables)
    attempt.commands += 1
    if done.returncode:
        attempt.fault(f"could not go on (status {done.returncode})\n    {tail(done.stderr)}")
        return
    found = results(exp)
    for name in whole.results.keys() | found.keys():
        if found.get(name) != whole.results.get(name):
            attempt.fault(f"{name} is not that of an undisturbed run")
    for left in exp.rglob("*.part"):
        attempt.fault(f"{left.relative_to(exp)} was left")


def _nothing_left(attempt: Attempt, exp: Path) -> None:
    """No process of a killed run may work on in its directory."""
    for pid in recipe_runs.running():
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if str(exp) in words and pid != os.getpid():
            attempt.fault(f"a process was left: {words[:100]!r}")

"""One attempt: an empty directory, a generator of random numbers, and what went wrong in it."""

from __future__ import annotations

import hashlib
import os
import random
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from torture.server import Result, run

# The last line on standard error of a command that ends badly: who says so, then what
CLEAR = re.compile(r"(aiayn( [a-z-]+)?|fairseq-[a-z-]+|[a-z_]+(\.py|\.sh)?)(: error)?: +\S")
INTERNAL = ("Traceback (most recent call last)", "Fatal Python error", "Segmentation fault")
TRACEBACK = "ended with a traceback"
RAISED_IN = re.compile(r'(?m)^  File "([^"]+)", line \d+')  # the last one raised the error
LONGEST_LINE = 700  # characters, beside the paths
MOST_MEMORY = 3000  # MiB of a command on these miniatures


class Attempt:
    """What an attack works with; `faults` is what it found."""

    def __init__(self, directory: Path, rng: random.Random):
        self.directory, self.rng = directory, rng
        self.mark = directory / "executed"  # an intruder's program would make it
        self.faults: list[str] = []
        self.commands = 0
        self._kept: dict[Path, str] = {}

    def keep(self, *paths: Path) -> None:
        """Name files that no command may change."""
        self._kept |= {path: digest(path) for path in paths}

    def run(
        self,
        *command: str | Path,
        output: Path | None = None,
        stdin: bytes | None = b"",
        **conditions: object,
    ) -> Result:
        """Run a command and judge how it ended; it writes `output`, whole or not at all.

        `conditions` are those of `server.run`.
        """
        words = [str(word) for word in command]
        before = digest(output) if output else ""
        result = run(words, self.directory, stdin=stdin, **conditions)
        self.commands += 1
        speaks = 2 not in conditions.get("closed", ())
        faults = list(judge(result, str(self.directory), speaks))
        if words[0].startswith("fairseq-") and raised_by_others(result):
            faults.remove(TRACEBACK)
        if output and result.status and digest(output) != before:
            faults.append(f"{output.name} was written although the command failed")
        if output and not result.status and not output.exists():
            faults.append(f"{output.name} was not written although the command did not fail")
        for fault in faults:
            self.fault(f"{fault}\n    {shlex.join(words)}\n    {tail(result.stderr)}")
        return result

    def fault(self, what: str) -> None:
        """Note what must not be."""
        self.faults.append(what)

    def check(self) -> None:
        """Look for what no attack may do."""
        if self.mark.exists():
            self.fault("a program was executed")
        for path, before in self._kept.items():
            if digest(path) != before:
                self.fault(f"{path.name} was changed or lost")


def judge(result: Result, directory: str, speaks: bool = True) -> Sequence[str]:
    """Return what is wrong with how a command ended."""
    faults = []
    if result.hung:
        faults.append("did not end")
    elif result.status < 0:
        faults.append(f"was ended by signal {-result.status}")
    if any(text in result.stderr for text in INTERNAL):
        faults.append(TRACEBACK if result.status > 0 else "printed a traceback")
    elif result.status > 0 and speaks:
        line = result.stderr.rstrip().split("\n")[-1]
        if not CLEAR.match(line):
            faults.append("did not say what is wrong")
        elif len(line.replace(directory, "")) > LONGEST_LINE:
            faults.append(f"said it in {len(line):,} characters")
    # Numbers that a user chose may ask for any memory, if the command says so when there is not.
    if result.peak_mib > MOST_MEMORY and "not enough memory" not in result.stderr:
        faults.append(f"took {result.peak_mib:,} MiB")
    return faults


def raised_by_others(result: Result) -> bool:
    """Return whether a command ended with the traceback of an error that fairseq or a library
    raised; these keep it."""
    files = RAISED_IN.findall(result.stderr)
    ended = result.status > 0 and INTERNAL[0] in result.stderr
    return ended and bool(files) and "fairseq_aiayn" not in files[-1]


def digest(path: Path) -> str:
    """Return what stands for a file's content, "" if there is no file."""
    if not path.is_file() or not os.access(path, os.R_OK):
        return ""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def tail(text: str) -> str:
    """Return the last lines of a message, cut to what one reads."""
    lines = [line[:200] for line in text.rstrip().splitlines()[-4:]]
    return "\n    ".join(lines)

"""Run a command in a fork, and judge how it ended and what it did to files."""

import os
import re
import resource
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from subprocess import CompletedProcess
from tempfile import TemporaryDirectory, TemporaryFile
from types import ModuleType
from typing import IO

from fairseq_aiayn.cli.main import main

SECONDS = 120  # then a command hangs
MEMORY = 4 << 30  # bytes of addresses beyond what is imported; nothing here needs a tenth
CLEAR = re.compile(r"[a-z_-]+( [a-z-]+)?(: error)?: +\S")  # who says it, then what is wrong


class Attempt:
    """Commands that a user starts in a directory; `root` has all files of the user."""

    def __init__(self, root: Path, directory: Path):
        self.root, self.directory = root, directory
        self.mark = directory / "executed"  # where code in a file would leave a mark

    def aiayn(self, *words: object, stdin: bytes = b"") -> CompletedProcess:
        return self.run(lambda: main([*map(str, words)]), stdin)

    def script(self, module: ModuleType, *words: object) -> CompletedProcess:
        sys.argv = [module.__file__, *map(str, words)]
        return self.run(module.main)

    def run(self, action: Callable[[], int | None], stdin: bytes = b"") -> CompletedProcess:
        """Run an action as a command, and assert that it ends well or with one line; no file of the
        user may change, and a command that fails leaves none."""
        before = self.files()
        done = in_a_fork(action, self.directory, stdin)
        after = self.files()
        assert done.returncode in (0, 1, 2), f"{done.returncode}: {done.stderr}"
        assert "Traceback" not in done.stderr, done.stderr
        assert not self.mark.exists()
        assert before.items() <= after.items(), "a file was changed or lost"
        if done.returncode:
            line = done.stderr.rstrip().split("\n")[-1]
            assert CLEAR.match(line) and len(line) < 1000, line
            assert before == after, done.stderr
        return done

    def files(self) -> dict[Path, tuple[int, ...]]:
        """Return what changes when a file does, of all files of the user."""
        states = {path: path.lstat() for path in self.root.rglob("*") if not path.is_dir()}
        return {p: (one.st_ino, one.st_size, one.st_mtime_ns) for p, one in states.items()}


@contextmanager
def attempt(root: Path) -> Iterator[Attempt]:
    """Give a directory among the files of a user to an attack, and remove it at the end."""
    with TemporaryDirectory(dir=root) as directory:
        yield Attempt(root, Path(directory))


def in_a_fork(action: Callable[[], int | None], directory: Path, stdin: bytes) -> CompletedProcess:
    with TemporaryFile() as given, TemporaryFile() as output, TemporaryFile() as errors:
        files = (given, output, errors)
        given.write(stdin)
        given.seek(0)
        process = get_context("fork").Process(target=do, args=(action, directory, files))
        process.start()
        process.join(SECONDS)
        process.kill()
        process.join()
        output.seek(0)
        errors.seek(0)
        said = errors.read().decode(errors="replace")
        return CompletedProcess([], process.exitcode, output.read(), said)


def do(action: Callable[[], int | None], directory: Path, files: Sequence[IO[bytes]]) -> None:
    """Do an action with other streams, in a limit of memory, and exit with its status."""
    for number, file in enumerate(files):
        os.dup2(file.fileno(), number)
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(n, "w" if n else "r") for n in range(3))
    os.chdir(directory)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY,) * 2)
    sys.exit(action())

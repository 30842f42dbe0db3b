"""A tiny invented language pair, binarized by fairseq-preprocess."""

import random
import subprocess
from pathlib import Path

import pytest
from fairseq_commands import Run, command, environment
from patience import PATIENCE


@pytest.fixture(scope="session")
def run() -> Run:
    """Run a tool to its end; an exception has its output unless the end is as `fails` says."""

    def run_tool(*arguments, fails=False, stdin=""):
        how = {"capture_output": True, "text": True, "timeout": PATIENCE, "env": environment()}
        done = subprocess.run(command(*arguments), check=False, input=stdin, **how)
        if (done.returncode != 0) != fails:
            raise AssertionError(f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done

    return run_tool


def invent(path: Path, sentences: int, seed: int) -> None:
    """Write sentences in which w7 becomes v7, twice if the number is a multiple of 5."""
    rng = random.Random(seed)
    with open(f"{path}.en", "w") as source, open(f"{path}.de", "w") as target:
        for _ in range(sentences):
            words = [rng.randrange(20) for _ in range(rng.randint(2, 7))]
            source.write(" ".join(f"w{word}" for word in words) + "\n")
            target.write(" ".join(f"v{w}" for w in words for _ in range(1 + (w % 5 == 0))) + "\n")


@pytest.fixture(scope="session")
def data_bin(tmp_path_factory: pytest.TempPathFactory, run: Run) -> Path:
    """The corpus as fairseq-preprocess writes it, with a joined dictionary."""
    folder = tmp_path_factory.mktemp("corpus")
    for split, sentences, seed in (("train", 600, 1), ("valid", 40, 2), ("test", 20, 3)):
        invent(folder / split, sentences, seed)
    texts = [f"--{split}pref={folder / split}" for split in ("train", "valid", "test")]
    more = ("--joined-dictionary", "--destdir", folder / "bin")
    run("fairseq-preprocess", "-s", "en", "-t", "de", *texts, *more)
    return folder / "bin"

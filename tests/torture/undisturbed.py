"""Recipes that nothing disturbs, in miniature, and what they come to."""

from __future__ import annotations

import shlex
import time
from pathlib import Path

import mirrors
import recipe_runs

from torture.attempt import digest


class Undisturbed:
    """A run that nothing disturbs: its command, how long it takes and what it comes to."""

    def __init__(self, words: list[str], variables: dict[str, str], exp: Path):
        self.words, self.variables, self.exp = words, variables, exp
        begin = time.monotonic()
        done = recipe_runs.call(words, **variables)
        self.seconds = time.monotonic() - begin
        if done.returncode:
            raise RuntimeError(f"{shlex.join(words)}\n{done.stderr}")
        self.results = results(exp)

    def words_for(self, exp: Path) -> list[str]:
        """The same command for another directory."""
        return [str(exp) if word == str(self.exp) else word for word in self.words]


def results(exp: Path) -> dict[str, str]:
    """What users take from a run, by file."""
    kinds = ("bin/*.*", "*-1/hypothesis.txt", "*-1/score.json", "data/*", "pieces/train.*")
    paths = [path for kind in kinds for path in exp.glob(kind) if path.suffix != ".log"]
    return {str(path.relative_to(exp)): digest(path) for path in paths}


def make_demo(directory: Path) -> Undisturbed:
    """The demo in miniature, which trains six updates."""
    corpus = directory / "corpus"
    corpus.mkdir(parents=True)
    for language, lines in zip(("en", "de"), mirrors.invented_pairs(400, 7)):
        (corpus / f"text.{language}").write_text("".join(f"{line}\n" for line in lines))
    words = [recipe_runs.RECIPES / "demo" / "run.sh", "--exp", directory / "exp"]
    words += ["--corpus", corpus, "--system", "aiayn"]
    words += ["--held_out", "20", "--bpe_codes", "50", "--device", "cpu"]
    words += ["--workers", "1", *recipe_runs.SHORT]
    variables = recipe_runs.without_fork_server()
    return Undisturbed([str(word) for word in words], variables, directory / "exp")


def make_wmt(directory: Path) -> Undisturbed:
    """The recipe of English-German in miniature, without a training."""
    directory.mkdir()
    corpus = recipe_runs.make_corpus("wmt14_en_de", directory / "mirror", "de", 30)
    one = ("--average", "1")  # stand-ins have no weights to average
    words = recipe_runs.mirrored(corpus, directory / "exp", *recipe_runs.SHORT, *one)
    return Undisturbed(words, recipe_runs.with_stand_ins(directory / "tools"), directory / "exp")

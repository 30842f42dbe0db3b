"""Whole runs for German: of both systems, and of one that is killed in every stage."""

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from recipe_runs import (
    SHORT,
    Corpus,
    files_of,
    finish,
    kill_session,
    lines_of,
    make_corpus,
    mirrored,
    stages_run,
    start,
    wait_for,
    with_holds,
)

RUN = "aiayn-tiny-1"
# Where each stage is killed: when this file of EXP is there.
KILLS = [
    ("1-download", "log/1-download.log"),
    ("2-held_out", "log/2-held_out.log"),
    ("2-clean", "tokens"),
    ("3-pieces", "pieces/words"),
    ("3-apply", "log/3-apply.log"),
    ("4-binarize", "bin.part"),
    (f"5-train-{RUN}", f"{RUN}/checkpoints/checkpoint_1_2.pt"),
    (f"6-average-{RUN}", f"log/6-average-{RUN}.log"),
    (f"7-translate-{RUN}", f"{RUN}/search"),
    (f"8-score-{RUN}", f"{RUN}/hypothesis.txt"),
]
# Here the recipe alone is killed, which leaves behind the command that it runs.
ALONE = {
    "4-binarize": "fairseq-preprocess",
    f"5-train-{RUN}": "fairseq-train",
    f"7-translate-{RUN}": "fairseq-generate",
}


@dataclass(frozen=True)
class Undisturbed:
    """A whole run of both systems, and what the killed one must come to, too."""

    corpus: Corpus
    exp: Path
    words: list[str]  # the command
    results: dict[str, bytes]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> Iterator[Undisturbed]:
    directory = tmp_path_factory.mktemp("undisturbed")
    corpus = make_corpus("wmt14_en_de", directory / "mirror", "de", 300)
    words = mirrored(corpus, directory / "exp", *SHORT, "--system", "both")
    finish(words)
    yield Undisturbed(corpus, directory / "exp", words, results(directory / "exp"))
    shutil.rmtree(directory)  # a gigabyte


def results(exp: Path) -> dict[str, bytes]:
    """Return the content of what is binarized, translated and scored, by file."""
    paths = [
        path
        for path in (exp / "bin").rglob("*")
        if path.is_file() and path.name != "preprocess.log"
    ]
    paths += [exp / RUN / name for name in ("hypothesis.txt", "score.json")]
    return {str(path.relative_to(exp)): path.read_bytes() for path in paths}


def weights(exp: Path) -> dict[str, torch.Tensor]:
    return torch.load(exp / RUN / "average.pt", weights_only=False)["model"]


def test_both_systems_are_scored_on_the_same_text_in_one_table(undisturbed):
    content = json.loads((undisturbed.exp / "table" / "table.json").read_text())
    names = [run["settings"]["name"] for run in content["runs"]]
    assert names == [RUN, "stock-tiny-1"]
    ours, stock = content["runs"]
    assert ours["test_set"] == stock["test_set"]
    assert ours["sentences"] == stock["sentences"] == 12
    assert ours["training"]["updates"] == stock["training"]["updates"] == 6
    lines = (undisturbed.exp / "table" / "table.md").read_text().splitlines()
    head = next(line for line in lines if line.startswith("|"))
    assert [cell.strip() for cell in head.split("|")] == ["", "", *names, ""]
    for name in names:
        hypothesis = lines_of(undisturbed.exp / name / "hypothesis.txt")
        assert len(hypothesis) == 12 and not any("@@" in line for line in hypothesis)
    for language in ("en", "de"):
        assert "@@ " in (undisturbed.exp / "pieces" / f"train.{language}").read_text()


def test_the_same_command_again_skips_everything_and_changes_nothing(undisturbed):
    before = files_of(undisturbed.exp)
    again = finish(undisturbed.words)
    assert again.stderr.count(" is done, skipped") == 16
    assert stages_run(again.stderr) == []
    assert files_of(undisturbed.exp) == before


def test_a_run_killed_in_every_stage_ends_as_if_it_had_not_been(undisturbed, tmp_path):
    exp, errors = tmp_path / "exp", tmp_path / "errors"
    words = mirrored(undisturbed.corpus, exp, *SHORT)
    holds = with_holds(tmp_path / "holds")
    said = ""
    for stage, sign in KILLS:
        process = start(words, errors, **holds, HELD=stage, HELD_COMMAND=ALONE.get(stage, ""))
        wait_for(exp / sign, process, errors)
        if stage in ALONE:
            process.kill()
            process.wait()
        else:
            kill_session(process)
        assert not (exp / ".done" / stage).exists()
        said += errors.read_text()
    last = finish(words)
    said += last.stderr
    assert [stage for stage, _ in KILLS if f" stage {stage} goes on\n" not in said] == []
    assert said.count("stopping the command it left behind") == len(ALONE)
    assert f"goes on from the last checkpoint in {exp}/{RUN}\n" in said
    log = (exp / "log" / f"5-train-{RUN}.log").read_text()
    assert re.search(r"Loaded checkpoint \S+/checkpoint_last\.pt \(epoch 1 @ [2-6] updates\)", log)
    assert results(exp) == undisturbed.results
    ours, theirs = weights(exp), weights(undisturbed.exp)
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    assert not list(exp.rglob("*.part"))
    shutil.rmtree(exp)  # half a gigabyte

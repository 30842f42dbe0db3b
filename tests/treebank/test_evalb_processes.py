"""Several processes give the same scores as one, and none is left after an error."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairseq_aiayn.cli.main import main
from fairseq_aiayn.treebank.evalb import scoring

TREE = "(TOP (S (NP (NN rain)) (VP (VBD fell)) (. .)))\n"
WRONG = TREE.replace("(VP", "(PP")
OTHER = TREE.replace("rain", "snow")
BOTH = pytest.mark.parametrize("options", [[], ["--json", "--per-sentence"], ["--per-sentence"]])


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two sentences per batch; the first batch is scored before processes are started."""
    monkeypatch.setattr(scoring, "BATCH", 2)
    monkeypatch.setattr(scoring, "ALONE", 1)
    yield
    assert not multiprocessing.active_children()


def run(capsys: pytest.CaptureFixture[str], workers: int, *options: str) -> tuple[int, str, str]:
    """The exit status, standard output and standard error."""
    status = main(["evalb", "gold", "predicted", "--workers", str(workers), *options])
    return status, *capsys.readouterr()


@BOTH
@pytest.mark.parametrize(
    "predicted",
    [
        (TREE + WRONG + OTHER + "\n") * 10,  # valid, errors and skipped
        TREE * 30 + "(S it rains)\n" + TREE * 9,  # refused by a worker
        TREE * 25,  # too few lines
        TREE * 45,  # too many
        TREE * 20 + "(TOP (NN f\udcfcr))\n" + TREE * 19,  # not UTF-8
    ],
    ids=["scored", "refused", "too few", "too many", "not UTF-8"],
)
def test_workers_change_nothing(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    predicted: str,
    options: list[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("gold").write_text(TREE * 40)
    Path("predicted").write_bytes(predicted.encode(errors="surrogateescape"))
    alone = run(capsys, 1, *options)
    assert run(capsys, 3, *options) == alone
    assert alone[0] == (0 if predicted.startswith(TREE + WRONG) else 2)


def test_errors_can_end_it_with_workers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("gold").write_text(TREE * 400)
    Path("predicted").write_text(OTHER * 400)
    assert run(capsys, 3, "-e", "7") == run(capsys, 1, "-e", "7")


@pytest.mark.parametrize("number", ["0", "65", "-1", "two", "9" * 4_000])
def test_workers_are_a_number(capsys: pytest.CaptureFixture[str], number: str) -> None:
    assert main(["evalb", "gold", "predicted", f"--workers={number}"]) == 2
    message = f"aiayn evalb: --workers must be a whole number from 1 to 64, got {number:.60}\n"
    assert capsys.readouterr().err == message


def test_the_help_says_from_when_on(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    with pytest.raises(SystemExit):
        main(["evalb", "--help"])
    sentences = scoring.BATCH * scoring.ALONE
    assert f"more than {sentences:,} sentences" in " ".join(capsys.readouterr().out.split())

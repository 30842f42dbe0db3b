"""Several processes give the same scores as one, and none is left after an error."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fairseq_aiayn.cli.main import main
from fairseq_aiayn.treebank import evalb

TREE = "(TOP (S (NP (NN rain)) (VP (VBD fell)) (. .)))\n"
WRONG = TREE.replace("(VP", "(PP")
OTHER = TREE.replace("rain", "snow")
Run = Callable[..., tuple[int, str, str]]
BOTH = pytest.mark.parametrize("options", [[], ["--json", "--per-sentence"], ["--per-sentence"]])


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two sentences per batch; the first batch is scored before processes are started."""
    monkeypatch.setattr(evalb, "BATCH", 2)
    monkeypatch.setattr(evalb, "ALONE", 1)
    yield
    assert not multiprocessing.active_children()


@pytest.fixture
def run(aiayn: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that scores the files gold and predicted with so many workers."""
    monkeypatch.chdir(tmp_path)
    return lambda workers, *more: aiayn("evalb", "gold", "predicted", "--workers", workers, *more)


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
def test_workers_change_nothing(run: Run, predicted: str, options: list[str]) -> None:
    Path("gold").write_text(TREE * 40)
    Path("predicted").write_bytes(predicted.encode(errors="surrogateescape"))
    alone = run(1, *options)
    assert run(3, *options) == alone
    assert alone[0] == (0 if predicted.startswith(TREE + WRONG) else 2)


def test_errors_can_end_it_with_workers(run: Run) -> None:
    Path("gold").write_text(TREE * 400)
    Path("predicted").write_text(OTHER * 400)
    assert run(3, "-e", "7") == run(1, "-e", "7")


@pytest.mark.parametrize("number", ["0", "65", "-1", "two", "9" * 4_000])
def test_workers_are_a_number(refused: Callable[..., str], number: str) -> None:
    message = f"aiayn evalb: --workers must be a whole number from 1 to 64, got {number:.60}"
    assert refused("evalb", "gold", "predicted", f"--workers={number}") == message


def test_the_help_says_from_when_on(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    with pytest.raises(SystemExit):
        main(["evalb", "--help"])
    sentences = evalb.BATCH * evalb.ALONE
    assert f"more than {sentences:,} sentences" in " ".join(capsys.readouterr().out.split())

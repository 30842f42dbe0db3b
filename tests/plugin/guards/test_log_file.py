"""Each line of a training once in --log-file, whatever its epoch."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from fairseq.logging import progress_bar

from fairseq_aiayn.plugin.guards import log_file


@pytest.fixture(autouse=True)
def own_handlers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a test opens is closed after it."""
    handlers: list[logging.Handler] = []
    monkeypatch.setattr(progress_bar.logger, "handlers", handlers)
    monkeypatch.setattr(progress_bar.logger, "level", logging.INFO)
    yield
    for one in handlers:
        one.close()


def test_a_file_is_opened_for_the_first_epoch_only(tmp_path: Path) -> None:
    log_file.install()
    first, other = tmp_path / "first.log", tmp_path / "other.log"
    for epoch, path in enumerate([first, first, other, first], start=1):
        bar = progress_bar.progress_bar(
            [1], log_format="json", log_file=str(path), epoch=epoch, prefix="train"
        )
        bar.print({"epoch": epoch}, tag="train")
    assert [path.read_text().count('"epoch": 4') for path in (first, other)] == [1, 1]
    assert first.read_text().count("\n") == 4
    assert len(progress_bar.logger.handlers) == 2

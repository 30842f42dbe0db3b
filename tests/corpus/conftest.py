"""Modules that change a text from standard input, run within the test's process."""

import io
import sys
from collections.abc import Callable
from types import ModuleType

import pytest


@pytest.fixture
def filtered(monkeypatch: pytest.MonkeyPatch, give: Callable[..., None]) -> Callable[..., str]:
    """Return a function that gives a module a text: what it writes."""

    def run(module: ModuleType, text: str | bytes, *options: str) -> str:
        give(text)
        written = io.BytesIO()
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, write_through=True))
        monkeypatch.setattr(sys, "argv", [module.__file__, *options])
        module.main()
        return written.getvalue().decode()

    return run

"""Modules that change a text from standard input, run within the test's process."""

import sys
from collections.abc import Callable
from types import ModuleType

import pytest


@pytest.fixture
def filtered(
    monkeypatch: pytest.MonkeyPatch, give: Callable[..., None], capsysbinary
) -> Callable[..., str]:
    """Return a function that gives a module a text: what it writes."""

    def run(module: ModuleType, text: str | bytes, *options: str) -> str:
        give(text)
        monkeypatch.setattr(sys, "argv", [module.__file__, *options])
        module.main()
        return capsysbinary.readouterr().out.decode()

    return run

"""Errors of one line: without control characters, with long values shortened and the rule whole."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_aiayn.text import LONGEST_MESSAGE, script, shortened


@given(st.text())
def test_a_message_is_one_line_that_a_terminal_prints_as_it_is(message: str) -> None:
    line = shortened(message)
    assert all(c.isprintable() or c.isspace() for c in line) and len(line.splitlines()) <= 1
    assert len(line) <= LONGEST_MESSAGE + 3
    if message.isprintable() and len(message) < 200:
        assert line == message


def test_control_characters_are_escaped() -> None:
    assert shortened("a\x1b[31m\tb\u202e\udcff\nfür 5\u00a0%") == (
        "a\\x1b[31m\\tb\\u202e\\udcff für 5\u00a0%"
    )


@pytest.mark.parametrize("value", ["x" * 4000, f"'{'a b ' * 1000}'", f'"{"it is " * 700}"'])
def test_a_long_value_is_shortened_and_the_rule_stays(value: str) -> None:
    line = shortened(f"run.json: alpha: expected a number, got {value}, as in the paper")
    begin, _, end = line.partition(value[:100])
    assert begin == "run.json: alpha: expected a number, got " and end.endswith(", as in the paper")
    assert len(line) < 300


def test_a_script_ends_with_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["dir/tool.py"])
    with pytest.raises(SystemExit, match=r"^tool: .*a\\x1bb"), script("what it does"):
        raise OSError(2, "no such file", "a\x1bb")


@pytest.mark.parametrize(
    ("package", "install"),
    [
        ("nowhere.below", "nowhere"),
        ("subword_nmt", "subword-nmt"),
        ("omegaconf", "'fairseq-aiayn[fairseq]'"),
        ("matplotlib.figure", "'fairseq-aiayn[plot]'"),
    ],
)
def test_a_missing_package_is_named_with_the_extra_that_brings_it(
    monkeypatch: pytest.MonkeyPatch, package: str, install: str
) -> None:
    monkeypatch.setattr("sys.argv", ["tool.py"])
    with pytest.raises(SystemExit) as ended, script("what it does"):
        raise ModuleNotFoundError(name=package)
    name = package.partition(".")[0]
    assert str(ended.value) == f"tool: {name} is needed for this: pip install {install}"

"""Messages are one line that a terminal prints as it is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_aiayn.console import LONGEST_MESSAGE, script, shortened


@given(st.text())
def test_a_message_is_one_line_that_a_terminal_prints_as_it_is(message):
    line = shortened(message)
    assert all(c.isprintable() or c.isspace() for c in line) and len(line.splitlines()) <= 1
    assert len(line) <= LONGEST_MESSAGE + 3
    if message.isprintable() and len(message) < 200:
        assert line == message


@pytest.mark.parametrize("value", ["x" * 4000, f"'{'a b ' * 1000}'", f'"{"it is " * 700}"'])
def test_a_long_value_is_shortened_and_the_rule_stays(value):
    line = shortened(f"run.json: alpha: expected a number, got {value}, as in the paper")
    begin, _, end = line.partition(value[:100])
    assert begin == "run.json: alpha: expected a number, got " and end.endswith(", as in the paper")
    assert len(line) < 300


def test_an_apostrophe_quotes_nothing():
    message = f"the sentence's length{' and its' * 40} beam don't fit"
    assert shortened(message) == message


def test_a_script_ends_with_one_line(monkeypatch):
    monkeypatch.setattr("sys.argv", ["dir/tool.py"])
    with pytest.raises(SystemExit, match=r"^tool: .*a\\x1bb"), script("what it does"):
        raise OSError(2, "no such file", "a\x1bb")
    for package, name in (("subword_nmt.x", "subword-nmt"), ("omegaconf", "fairseq-aiayn.fairseq")):
        with pytest.raises(SystemExit, match=f"pip install '?{name}"), script("what it does"):
            raise ModuleNotFoundError(name=package)
    with pytest.raises(SystemExit, match=r"^tool: libcudnn.so.9: "), script("what it does"):
        raise ImportError("libcudnn.so.9: cannot open shared object file", name="torch._C")

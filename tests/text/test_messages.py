"""JSON that becomes a dataclass or is refused with the file and the key; errors of one line."""

from dataclasses import asdict, dataclass, field

import pytest
from faults import fault_of
from hypothesis import given
from hypothesis import strategies as st

from fairseq_aiayn.text import LONGEST_MESSAGE, dataclass_of, read_json, script, shortened


@dataclass(frozen=True)
class Part:
    count: int

    def __post_init__(self) -> None:
        if self.count < 0:
            raise ValueError(f"count must be at least 0, got {self.count}")


@dataclass(frozen=True)
class Whole:
    name: str
    share: float
    part: Part
    parts: tuple[Part, ...] = ()
    by_name: dict[str, Part] = field(default_factory=dict)
    given: bool = False
    note: str | None = None


PARTS = st.builds(Part, st.integers(0, 2**63))
NAMES = st.text(st.characters(codec="utf-8"))
GOOD = {"name": "a", "share": 1, "part": {"count": 3}, "unknown": []}


@given(
    st.builds(Whole, NAMES, st.floats(allow_nan=False), PARTS, st.tuples(PARTS), note=NAMES)
    | st.builds(Whole, NAMES, st.just(1.0), PARTS, by_name=st.dictionaries(NAMES, PARTS))
)
def test_what_asdict_gives_is_read_again(whole):
    assert dataclass_of(asdict(whole), Whole, "x.json") == whole
    assert dataclass_of(GOOD, Whole, "x.json") == Whole("a", 1.0, Part(3)), "unknown keys, defaults"


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"share": "1"}, "share: "),
        ({"part": {"count": True}}, "part.count: "),
        ({"part": {"count": -1}}, "part: count must be at least 0"),
        ({"parts": [{"count": 1}, {}]}, "parts.1.count: missing key"),
        ({"by_name": {"b": 1}}, "by_name.b: expected an object, got 1"),
    ],
)
def test_a_wrong_value_is_named_with_its_place(change, place):
    message = fault_of(dataclass_of, GOOD | change, Whole, "x.json")
    assert message.startswith(f"x.json: {place}") and "\n" not in message


@pytest.mark.parametrize("content", [b"{", b"\xff", b"[" * 100_000])
def test_a_file_that_is_not_json_is_named(content, tmp_path):
    (tmp_path / "x.json").write_bytes(content)
    assert fault_of(read_json, tmp_path / "x.json").startswith(f"{tmp_path}/x.json: expected JSON")


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
    """An extra brings a package that is missing, or pip does; one that fails says why."""
    monkeypatch.setattr("sys.argv", ["dir/tool.py"])
    with pytest.raises(SystemExit, match=r"^tool: .*a\\x1bb"), script("what it does"):
        raise OSError(2, "no such file", "a\x1bb")
    for package, name in (("subword_nmt.x", "subword-nmt"), ("omegaconf", "fairseq-aiayn.fairseq")):
        with pytest.raises(SystemExit, match=f"pip install '?{name}"), script("what it does"):
            raise ModuleNotFoundError(name=package)
    with pytest.raises(SystemExit, match=r"^tool: libcudnn.so.9: "), script("what it does"):
        raise ImportError("libcudnn.so.9: cannot open shared object file", name="torch._C")

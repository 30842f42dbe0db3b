"""JSON that becomes a dataclass, or is refused with the file and the key."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path

import pytest
from faults import fault_of
from hypothesis import given
from hypothesis import strategies as st

from fairseq_aiayn.text import dataclass_of, read_json


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
WHOLES = st.builds(
    Whole,
    name=NAMES,
    share=st.floats(allow_nan=False),
    part=PARTS,
    parts=st.lists(PARTS).map(tuple),
    by_name=st.dictionaries(NAMES, PARTS),
    given=st.booleans(),
    note=st.none() | NAMES,
)
GOOD = {"name": "a", "share": 1, "part": {"count": 3}, "unknown": []}


@given(WHOLES)
def test_what_asdict_gives_is_read_again(whole: Whole) -> None:
    assert dataclass_of(asdict(whole), Whole, "x.json") == whole


def test_unknown_keys_are_ignored_and_defaults_kept() -> None:
    assert dataclass_of(GOOD, Whole, "x.json") == Whole("a", 1.0, Part(3))


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"name": None}, "name"),
        ({"share": "1"}, "share"),
        ({"part": {"count": True}}, "part.count"),
        ({"part": {"count": -1}}, "part"),
        ({"parts": [{"count": 1}, {}]}, "parts.1.count"),
        ({"by_name": {"b": 1}}, "by_name.b"),
    ],
)
def test_a_wrong_value_is_named_with_its_place(change: dict, place: str) -> None:
    message = fault_of(dataclass_of, GOOD | change, Whole, "x.json")
    assert message.startswith(f"x.json: {place}: ") and "\n" not in message


def test_a_missing_key_is_named_and_anything_but_an_object_is_refused() -> None:
    content = {name: value for name, value in GOOD.items() if name != "part"}
    assert fault_of(dataclass_of, content, Whole, "x.json") == "x.json: part: missing key"
    assert fault_of(dataclass_of, [], Whole, "x.json").startswith("x.json: expected an object")


@pytest.mark.parametrize("content", [b"{", b"\xff", b"[" * 100_000])
def test_a_file_that_is_not_json_is_named(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_bytes(content)
    assert fault_of(read_json, tmp_path / "x.json").startswith(f"{tmp_path}/x.json: expected JSON")

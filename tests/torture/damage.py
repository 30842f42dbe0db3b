"""Strategies that draw damaged input: bytes, text, nested data, options."""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy
import torch
from checkpoint_states import Intruder, expression
from hypothesis import strategies as st

ODD_BYTES = (
    *(b"", b"\0", b"\xff", b"\r\n", b"\t", b" ", b"(", b")", b"-1", b"nan", b"9" * 400, b"{}"),
    *("\u2028".encode(), "\u00a0".encode(), b"\xef\xbb\xbf", b"(" * 5000, b"(A " * 300),
    *(b"x" * 70_000, b"</seg>", b"../", b"<unk>", b'"', b"\\", b"@@ ", b"\x1f\x8b\x08"),
)
ODD_WORDS = (
    *("", " ", "0", "-1", "1", "3.5", "nan", "-inf", "1e999", "9" * 4000, "2147483648", "x", "é"),
    *("\u2028", "a b", "../..", ".", "/dev/null", "-", "--", "-x", "${oc.env:HOME}", "{}", "en"),
    *("$(touch executed)", "[1,2]", "true", "None", "a" * 300, "a" * 5000, "*", "a:b", "a,b", "'"),
)
NUMBERS = (-1, 0, 1, 7, 2**31, 2**63, -(2**63), 10**20, 0.5, -1.5, float("nan"), float("inf"))


@st.composite
def damaged(draw: st.DrawFn, data: bytes) -> bytes:
    """Draw `data` with some of its lines or bytes lost, doubled, reversed or replaced."""
    in_lines = draw(st.booleans())
    parts = data.splitlines(keepends=True) if in_lines else [*map(bytes, zip(data))]
    start = draw(st.just(0) | st.integers(0, len(parts)))
    end = start + draw(st.sampled_from((0, 1, 2, 8, 100, len(parts))))
    changed = draw(st.sampled_from((parts[start:end] * 2, parts[start:end][::-1], [])))
    odd = draw(st.sampled_from(ODD_BYTES) | st.binary(max_size=60))
    return b"".join((*parts[:start], *changed, odd, *parts[end:]))


def mutate(data: st.DataObject, state: Any, mark: Path) -> None:
    """Let a value be lost or something else; code in it would make the file `mark`."""
    found = list(places(state))
    container, key = found[data.draw(st.integers(0, len(found) - 1))]
    if isinstance(container, dict) and data.draw(st.integers(0, 3)) == 0:
        del container[key]
    else:
        container[key] = data.draw(st.sampled_from(others(container[key], mark)))


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    container = vars(value) if isinstance(value, argparse.Namespace) else value
    if isinstance(container, dict | list):
        for key in list(container) if isinstance(container, dict) else range(len(container)):
            yield container, key
            yield from places(container[key])


def others(value: Any, mark: Path) -> list[Any]:
    """Return what has no business in the place of `value`."""
    deep: list = []
    for _ in range(200):
        deep = [deep]
    values = [
        *(None, [], {}, (), set(), b"", True, [[]], {"a": 1}, [None], {1: {2: 3}}, deep),
        *(*ODD_WORDS, *NUMBERS, Intruder(mark), expression(mark), argparse.Namespace()),
        argparse.Namespace(_name="fconv", arch="fconv", encoder_layers=expression(mark)),
        {"_name": "ctc", "wer_args": expression(mark)},
        *(torch.ones(3), numpy.array([1.0]), numpy.array([{"a": 1}], dtype=object)),
    ]
    if not isinstance(value, torch.Tensor):
        return values
    tensors = [
        *(value[:0].clone(), torch.full_like(value, float("nan")), torch.ones(2, 3)),
        *(torch.tensor(1.0), value.to(torch.int8), value.to(torch.complex64), value.half()),
        *(torch.ones(1).expand(2**20, 2**20), value.to_sparse(), value.to("meta"), value.flip(0)),
        *(value.mT if value.dim() == 2 else value[None], torch.cat([value, value])),
    ]
    return tensors * 3 + values


@st.composite
def spoilt(draw: st.DrawFn, words: Sequence[str], options: Sequence[str]) -> list[str]:
    """Draw a command line with an argument or two replaced, lost, inserted or added."""
    words = list(words)
    for _ in range(draw(st.integers(1, 2))):
        value = draw(st.sampled_from(ODD_WORDS) | st.text(max_size=20))
        place = draw(st.integers(0, len(words)))
        replaced = draw(st.integers(0, 1))  # arguments
        new = ([value], [], [draw(st.sampled_from(options)), value])
        words[place : place + replaced] = draw(st.sampled_from(new))
    return words

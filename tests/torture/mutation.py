"""Random damage: to bytes, to nested data, to text."""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy
import torch
from intruder import Intruder, expression

HUGE = (2**31, 2**63, -(2**63), 10**20, 10**4000)
TEXTS = (
    "",
    " ",
    "x",
    "\0",
    "a" * 100_000,
    "-1",
    "nan",
    "1e999",
    "é\u2028\ud7ff",
    "../../etc",
    "%s{0}",
)


def damage(data: bytes, rng: random.Random) -> bytes:
    """Cut, flip, drop, double or insert some bytes."""
    place = rng.randrange(len(data) + 1)
    size = rng.choice((1, 2, 8, 100, len(data) // 2))
    kind = rng.randrange(7)
    if kind == 0:
        return data[:place]
    if kind == 1:
        return data[:place] + rng.randbytes(size) + data[place + size :]
    if kind == 2:
        return data[:place] + data[place + size :]
    if kind == 3:
        return data[:place] + data[place : place + size] * 2 + data[place + size :]
    if kind == 4:
        return data[:place] + rng.randbytes(size) + data[place:]
    if kind == 5:
        return rng.choice((b"", b"\0" * len(data), rng.randbytes(200), data + data))
    changed = bytearray(data)
    for _ in range(rng.choice((1, 3, 30)) if data else 0):
        changed[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def damage_file(path: Path, rng: random.Random) -> None:
    """Damage a file in place."""
    path.write_bytes(damage(path.read_bytes(), rng))


def places(value: Any, found: list | None = None) -> list[tuple[Any, Any]]:
    """List (container, key) of everything in nested data, tensors of a model among it."""
    found = [] if found is None else found
    container = vars(value) if isinstance(value, argparse.Namespace) else value
    if isinstance(container, dict):
        keys = list(container)
    elif isinstance(container, list):
        keys = range(len(container))
    else:
        return found
    for key in keys:
        found.append((container, key))
        places(container[key], found)
    return found


def mutate(state: Any, rng: random.Random, mark: Path) -> str:
    """Change nested data in one to three places, in place; return what was done, in words."""
    done = []
    for _ in range(rng.choice((1, 1, 2, 3))):
        found = places(state)
        if not found:
            break
        shallow = [one for one in found if one[0] is state]
        container, key = rng.choice(shallow if rng.random() < 0.25 else found)
        if isinstance(container, dict) and rng.random() < 0.25:
            del container[key]
            done.append(f"without {key!r:.40}")
            continue
        container[key] = _other(container[key], rng, mark)
        done.append(f"{key!r:.40} = {container[key]!r:.60}")
    return "; ".join(done)


def _other(value: Any, rng: random.Random, mark: Path) -> Any:
    """Return something that has no business in the place of `value`."""
    if isinstance(value, torch.Tensor) and rng.random() < 0.8:
        return rng.choice(list(_tensors(value)))()
    makers: tuple[Callable[[], Any], ...] = (
        lambda: None,
        lambda: rng.choice(TEXTS),
        lambda: rng.choice((-1, 0, 1, 7, *HUGE[:4])),
        lambda: rng.choice((float("nan"), float("inf"), -1.5, 0.5)),
        lambda: rng.choice(([], {}, (), set(), b"", True, [[]], {"a": 1}, [None], {1: {2: 3}})),
        lambda: argparse.Namespace(),
        lambda: argparse.Namespace(_name="fconv", arch="fconv", encoder_layers=expression(mark)),
        lambda: {"_name": "ctc", "wer_args": expression(mark)},
        lambda: expression(mark),
        lambda: Intruder(mark),
        lambda: "${oc.env:HOME}",
        lambda: _deep(rng.choice((10, 200))),
        lambda: torch.ones(3),
        lambda: numpy.array([1.0]),
        lambda: numpy.array([{"a": 1}], dtype=object),
    )
    return rng.choice(makers)()


def _tensors(value: torch.Tensor) -> Iterator[Callable[[], Any]]:
    yield lambda: value[:0].clone()
    yield lambda: torch.full_like(value, float("nan"))
    yield lambda: torch.ones(2, 3)
    yield lambda: torch.tensor(1.0)
    yield lambda: value.to(torch.int8)
    yield lambda: value.to(torch.complex64)
    yield lambda: value.double()
    yield lambda: value.half()
    yield lambda: value > 0
    yield lambda: torch.ones(1).expand(2**20, 2**20)
    yield lambda: value.to_sparse()
    yield lambda: value.to("meta")
    yield lambda: torch.nn.Parameter(value.float())
    yield lambda: value.t() if value.dim() == 2 else value.flip(0)
    yield lambda: torch.cat([value, value])


def _deep(depth: int) -> list:
    found: list = []
    for _ in range(depth):
        found = [found]
    return found


def damage_text(text: str, rng: random.Random) -> bytes:
    """Damage a text as text: lost or doubled characters and lines, other white space or bytes."""
    for _ in range(rng.choice((1, 2, 5))):
        place = rng.randrange(len(text) + 1)
        kind = rng.randrange(6)
        if kind == 0:
            text = text[:place] + text[place + 1 :]
        elif kind == 1:
            text = (
                text[:place]
                + rng.choice("()()()-=|'\"`\t\r\n\v\f\0 \u00a0\u2028\ufeff")
                + text[place:]
            )
        elif kind == 2:
            text = (
                text[:place]
                + rng.choice(("(" * 5000, "x" * 70_000, "(A " * 300, ")" * 9))
                + text[place:]
            )
        else:
            lines = text.split("\n")
            line = rng.randrange(len(lines))
            lines[line : line + 1] = [[], [lines[line]] * 2, [lines[line][::-1]]][kind - 3]
            text = "\n".join(lines)
    data = text.encode("utf-8", "surrogatepass")
    return damage(data, rng) if rng.random() < 0.3 else data

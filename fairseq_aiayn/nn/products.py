"""Which library is faster in float32 products on this CPU, by a trial of a tenth of a second: MKL,
which PyTorch takes and which has its fast code for Intel's processors only, or oneDNN.

A training that goes on must compute the same, and a trial has noise. So what it found is kept, in
~/.cache/fairseq_aiayn (XDG_CACHE_HOME), by the processor, PyTorch's version and the number of
threads.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import platform
import re
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

SIZE, ROUNDS = 256, 40  # rows and columns of the matrices; the fastest of so many rounds counts

logger = logging.getLogger(__name__)


class Faster(NamedTuple):
    """Whether oneDNN is faster than MKL."""

    product: bool  # in xWᵀ and in the gradient of x
    of_weights: bool  # in the gradient of W


def onednn_product(x: Tensor, W: Tensor, b: Tensor | None = None) -> Tensor:
    """Compute xWᵀ + b by oneDNN; it has no gradient. PyTorch has no public function for it;
    torch.compile calls this one."""
    return torch.ops.mkldnn._linear_pointwise(x, W, b, "none", [], "")


@cache
def onednn_is_faster(threads: int) -> Faster:
    """Return what a trial with so many threads finds, or found at an earlier time."""
    file = Path()
    with suppress(OSError, RuntimeError):  # no home, or none that can be written to
        file = kept_file(threads)
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            part = file.with_suffix(f".{os.getpid()}")
            part.write_text(json.dumps(trial()._asdict()))
            try:
                os.link(part, file)
            except FileExistsError:  # another process was faster
                pass
            finally:  # also where there are no hard links; then nothing is kept
                part.unlink()
    try:
        found = Faster(**json.loads(file.read_text()))
    except (OSError, TypeError, ValueError):
        found = trial()
    names = ["oneDNN" if faster else "MKL" for faster in found]
    logger.info(f"float32 products by {names[0]}, gradients of weights by {names[1]}: {file}")
    return found


def kept_file(threads: int) -> Path:
    """Return where the result of a trial is kept."""
    file = Path("/proc/cpuinfo")  # only Linux has it
    text = file.read_text(encoding="utf-8") if file.exists() else platform.processor()
    facts = sorted({*re.findall(r"^(?:model|cpu family).*", text, re.MULTILINE)}) or [text]
    of = [*facts, torch.__version__, f"{threads} threads"]
    name = hashlib.sha256("\n".join(of).encode()).hexdigest()[:16]
    cache_home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache_home, "fairseq_aiayn", f"products-{name}.json")


def trial() -> Faster:
    """Compute products of both libraries in turn; the fastest of all rounds count."""
    one = torch.ones(SIZE, SIZE)  # no random numbers, which a training would miss
    ways = (
        *(lambda: one @ one.T, lambda: onednn_product(one, one)),
        *(lambda: one.T @ one, lambda: onednn_product(one.T, one.T)),
    )
    with torch.no_grad():
        rounds = [[seconds(way) for way in ways] for _ in range(ROUNDS)]
    mkl, onednn, mkl_of_weights, onednn_of_weights = (min(way) for way in zip(*rounds, strict=True))
    return Faster(onednn < mkl, onednn_of_weights < mkl_of_weights)


def seconds(compute: Callable[[], Tensor]) -> float:
    """Return the wall time of a computation."""
    begun = time.perf_counter()
    compute()
    return time.perf_counter() - begun

"""The machine's own limits for matrix products and copying, measured in turns with the systems.

The products are those of a row's Transformer over a batch, and a large square one. The best rate of
any product in any turn is the ceiling of its precision. As a worker (see workers.py), it answers
each order with the rates of one turn. To print one turn by hand:

    echo '{}' | python benchmarks/limits.py cpu 2048 512 2048 9784
    (device, tokens, d_model, d_ff, vocabulary)
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the parent only needs the arithmetic: no 3 seconds for torch
    import torch
    from turn_taking import Device

SECONDS = 0.15  # a product is repeated for
SQUARE = {"cpu": 2_048, "cuda": 8_192}
COPIED_MIB = {"cpu": 256, "cuda": 2_048}
PRECISIONS = {"cpu": ("float32", "bfloat16"), "cuda": ("float32", "bfloat16", "float16")}
BANDWIDTH = "copy, bytes/s"
Product = tuple[int, int, int]  # [rows, inner] × [inner, columns]


def products(device: str, tokens: int, d_model: int, d_ff: int, vocabulary: int) -> list[Product]:
    """Return the products of a projection, both of Equation 2, the logits, and a square."""
    size = SQUARE[device]
    shapes = [(d_model, d_model), (d_model, d_ff), (d_ff, d_model), (d_model, vocabulary)]
    return [(tokens, *shape) for shape in shapes] + [(size, size, size)]


def ceiling(turns: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return the best rate of any product in any turn, in FLOPs/s by precision, and of copying."""
    best: dict[str, float] = {}
    for turn in turns:
        for name, rate in turn.items():
            precision = name.partition(" ")[0] if name != BANDWIDTH else name
            best[precision] = max(rate, best.get(precision, 0.0))
    return best


def measure(device: Device, shapes: Sequence[Product]) -> dict[str, float]:
    """Return the rate of every product in every precision, and of copying."""
    rates = {}
    for precision in PRECISIONS[device.name]:
        for rows, inner, columns in shapes:
            rate = _product_rate(device, precision, (rows, inner, columns))
            rates[f"{precision} {rows} × {inner} × {columns}"] = rate
    return rates | {BANDWIDTH: _copy_rate(device)}


def _product_rate(device: Device, precision: str, shape: Product) -> float:
    """Return FLOPs per second, two per multiply-add, with the memory layout of a linear layer."""
    import torch

    rows, inner, columns = shape
    where = {"device": device.name, "dtype": getattr(torch, precision)}
    x, weight = torch.randn(rows, inner, **where), torch.randn(columns, inner, **where)
    times = _times_a_second(device, lambda: torch.nn.functional.linear(x, weight))
    return 2 * rows * inner * columns * times


def _copy_rate(device: Device) -> float:
    """Return the bytes read and written per second."""
    import torch

    source = torch.ones(COPIED_MIB[device.name] * 2**20, dtype=torch.uint8, device=device.name)
    copy: torch.Tensor = torch.empty_like(source)
    return 2 * source.numel() * _times_a_second(device, lambda: copy.copy_(source))


def _times_a_second(device: Device, action) -> float:
    action()
    device.finish()
    started, times = time.monotonic(), 0
    while (elapsed := time.monotonic() - started) < SECONDS:
        for _ in range(1 + times):  # few looks at the clock: each waits for a GPU
            action()
        times += 1 + times
        device.finish()
    return times / elapsed


def main() -> None:
    import torch
    from turn_taking import Channel, find_device_or_exit

    torch.manual_seed(1)
    channel = Channel()
    device = find_device_or_exit(sys.argv[1])
    shapes = products(device.name, *map(int, sys.argv[2:]))
    while True:
        channel.order()
        channel.answer(measure(device, shapes))


if __name__ == "__main__":
    main()

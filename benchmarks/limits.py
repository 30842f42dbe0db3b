"""A worker that measures the machine's own limit: the rate of matrix products.

    echo '{}' | python benchmarks/limits.py cpu 2048 512 2048 9784
    (device, tokens, d_model, d_ff, vocabulary)

The products are those of a row's Transformer over a batch, and a large square one. An answer has
the best rate of any product, in FLOPs per second, by precision.
"""

from __future__ import annotations

import sys

import torch
from sides import PRECISIONS
from turn_taking import Channel, Device, find_device, mean_seconds

SECONDS = 0.15  # a product is repeated for
SQUARE = {"cpu": 2_048, "cuda": 8_192}
Product = tuple[int, int, int]  # [rows, inner] × [inner, columns]


def products(device: str, tokens: int, d_model: int, d_ff: int, vocabulary: int) -> list[Product]:
    """Return the products of a projection, both of Equation 2, the logits, and a square."""
    size = SQUARE[device]
    shapes = [(d_model, d_model), (d_model, d_ff), (d_ff, d_model), (d_model, vocabulary)]
    return [(tokens, *shape) for shape in shapes] + [(size, size, size)]


def rate(device: Device, precision: str, product: Product) -> float:
    """Return FLOPs per second, two per multiply-add, with the memory layout of a linear layer."""
    rows, inner, columns = product
    where = {"device": device.name, "dtype": getattr(torch, precision)}
    x, weight = torch.randn(rows, inner, **where), torch.randn(columns, inner, **where)
    seconds = mean_seconds(device, lambda: torch.nn.functional.linear(x, weight), SECONDS)
    return 2 * rows * inner * columns / seconds


def main() -> None:
    torch.manual_seed(1)
    channel = Channel()
    device = find_device(sys.argv[1])
    shapes = products(device.name, *map(int, sys.argv[2:]))
    while True:
        channel.order()
        best = {
            precision: max(rate(device, precision, product) for product in shapes)
            for precision in PRECISIONS[device.name]
        }
        channel.answer(best)


if __name__ == "__main__":
    main()

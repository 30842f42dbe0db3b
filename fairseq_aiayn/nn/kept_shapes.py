"""How much oneDNN and PyTorch keep of the products that they made."""

import os

__all__ = ["keep_few_shapes"]

KEPT_SHAPES = {"LRU_CACHE_CAPACITY": 8, "ONEDNN_PRIMITIVE_CACHE_CAPACITY": 64}  # shapes


def keep_few_shapes() -> None:
    """Set the environment, where it is not set, before the first product of this process.

    oneDNN and PyTorch keep what they made for each shape, up to 1,024 of them, and a training has
    thousands: memory would grow to twice stock fairseq's. It is as fast with fewer.
    """
    for name, shapes in KEPT_SHAPES.items():
        os.environ.setdefault(name, str(shapes))

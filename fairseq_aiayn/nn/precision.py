"""Matrix products in bfloat16 beside weights, sums and norms in float32."""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager, nullcontext
from functools import cache

import torch

PRODUCT_TYPES = {"float32": None, "bfloat16": torch.bfloat16}  # None: the type of the weights

logger = logging.getLogger(__name__)


def products_in(product_type: torch.dtype | None, device: torch.device) -> AbstractContextManager:
    """Return a context in which a device computes matrix products in this type; None changes
    nothing, so that an autocast around it (fairseq's --amp) stays on."""
    if product_type is None:
        return nullcontext()
    if device.type == "cpu":
        warn_if_slow(torch.backends.cpu.get_cpu_capability())
    return torch.autocast(device.type, product_type)


@cache  # one warning is enough
def warn_if_slow(capability: str) -> None:
    """Warn that a CPU without AVX512 computes in bfloat16 what it could do faster in float32."""
    if capability == "AVX2":  # PyTorch then has no fast products: 20 times slower, measured
        logger.warning("bfloat16 is many times slower than float32 on this CPU: it has no AVX512")

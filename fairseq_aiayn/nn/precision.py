"""Matrix products in bfloat16 beside weights, sums and norms in float32."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch

PRODUCT_TYPES = {"float32": None, "bfloat16": torch.bfloat16}  # None: the type of the weights


def products_in(product_type: torch.dtype | None, device: torch.device) -> AbstractContextManager:
    """Return a context in which a device computes matrix products in this type; None changes
    nothing, so that an autocast around it (fairseq's --amp) stays on."""
    return torch.autocast(device.type, product_type) if product_type else nullcontext()

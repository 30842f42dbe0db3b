"""Matrix products in bfloat16 beside weights, sums and norms in float32."""

from __future__ import annotations

import torch

PRODUCT_TYPES = {"float32": None, "bfloat16": torch.bfloat16}  # None: the type of the weights


def products_in(product_type: torch.dtype | None, device: torch.device) -> torch.autocast:
    """Return a context in which a device computes matrix products in this type; None changes
    nothing."""
    return torch.autocast(device.type, product_type, enabled=product_type is not None)

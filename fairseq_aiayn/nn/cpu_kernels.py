"""What depends on the device: faster ways on a CPU, sizes that fit its cache, bfloat16 products.

Each fast path computes the same as the plain code beside it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from fairseq_aiayn.nn.products import onednn_is_faster, onednn_product

__all__ = ["PRODUCT_TYPES", "linear", "products_in", "rows_of_logits", "type_of_products"]

WIDE = 4_096  # columns; for more, such as a vocabulary's, oneDNN is faster on every CPU tried
# None: the type of the weights
PRODUCT_TYPES = {"float32": None, "float16": torch.float16, "bfloat16": torch.bfloat16}

logger = logging.getLogger(__name__)


def linear(x: Tensor, W: Tensor, b: Tensor | None = None) -> Tensor:
    """Compute xWᵀ + b: x [..., k], W [n, k], b [n] → [..., n].

    For float32 on a CPU, oneDNN computes it where that is faster than MKL, which PyTorch takes.
    """
    if not fits_onednn(x, W):
        return F.linear(x, W, b)
    faster = onednn_is_faster(torch.get_num_threads())
    if not (faster.product or W.size(0) > WIDE):
        return F.linear(x, W, b)
    if not torch.is_grad_enabled():
        return onednn_product(x, W, b)
    return OneDNNLinear.apply(x, W, b, faster.of_weights)


def fits_onednn(x: Tensor, W: Tensor) -> bool:
    """Return whether oneDNN computes the same here: in float32 on a CPU, where neither autocast nor
    an export looks for the usual product."""
    return (
        (x.is_cpu and W.is_cpu and x.numel() > 0)
        and x.dtype == W.dtype == torch.float32
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
        and torch.backends.mkldnn.is_available()
        and bool(torch.backends.mkldnn.enabled)
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    )


class OneDNNLinear(torch.autograd.Function):
    """`linear` by oneDNN, with its gradients."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, W: Tensor, b: Tensor | None, of_weights: bool) -> Tensor:
        """x [..., k], W [n, k], b [n], and whether oneDNN computes the gradient of W → [..., n]."""
        ctx.save_for_backward(x, W)
        ctx.of_weights = of_weights
        return onednn_product(x, W, b)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_y: Tensor) -> tuple[Tensor, Tensor, Tensor | None, None]:
        """of_y [..., n] → the gradients in x [..., k], W [n, k] and, if there is one, b [n]."""
        x, W = ctx.saved_tensors
        rows, inputs = of_y.reshape(-1, W.size(0)), x.reshape(-1, W.size(1))
        of_b = rows.sum(0) if ctx.needs_input_grad[2] else None
        of_W = onednn_product(rows.T, inputs.T) if ctx.of_weights else rows.T @ inputs
        return onednn_product(of_y, W.T), of_W, of_b, None


def rows_of_logits(budgets: Mapping[str, int], E: Tensor) -> int:
    """Return how many rows of logits, for the vocabulary of E [V, d_model], fit the budget of E's
    device; at least one. A device without a budget takes that of a GPU ("cuda")."""
    return max(1, budgets.get(E.device.type, budgets["cuda"]) // E.size(0))


def fused_kernel_is_slow(Q: Tensor, rate: float) -> bool:
    """Return whether Equation 1 as written is faster than PyTorch's fused kernel for queries Q of
    any shape: on a CPU, the kernel has no dropout of attention weights with this rate, and its
    backward pass in bfloat16 takes ten times as long."""
    return Q.is_cpu and (rate > 0.0 or (Q.dtype == torch.bfloat16 and torch.is_grad_enabled()))


def dropout(x: Tensor, p: float) -> Tensor:
    """Set each element to 0 with probability p and divide the others by 1 − p.

    x of any shape → same shape and type.
    """
    if p == 0.0:
        return x
    if not x.is_cpu:
        return F.dropout(x, p)
    # On a CPU, F.dropout draws element by element, which takes a tenth of a small model's step, and
    # it keeps a mask as large as x for the backward pass.
    return x * draw_kept(x.shape, p) / (1.0 - p)


def draw_kept(shape: torch.Size, p: float) -> Tensor:
    """Draw which elements are kept: a bool tensor of this shape, False with probability p.

    Two elements share a draw of 64 random bits, 32 for each, so p is exact to 2^−32.
    """
    n = shape.numel()
    bits = torch.empty((n + 1) // 2, dtype=torch.int64).random_(-(2**63), None)
    return bits.view(torch.int32)[:n].view(shape) >= round(p * 2**32) - 2**31


def products_in(product_type: torch.dtype | None, device: torch.device) -> AbstractContextManager:
    """Return a context in which a device computes matrix products in this type; None changes
    nothing, so that an autocast around it (fairseq's --amp) stays on. Raises ValueError for a type
    that the device has not."""
    if product_type is None:
        return nullcontext()
    if device.type == "cpu":
        if product_type == torch.float16:
            raise ValueError("precision float16: expected a GPU, a CPU has float32 and bfloat16")
        warn_if_slow(torch.backends.cpu.get_cpu_capability())
    elif product_type == torch.bfloat16 and not torch.cuda.is_bf16_supported(False):
        raise ValueError("precision bfloat16: this GPU has none, take float16")
    return torch.autocast(device.type, product_type)


def type_of_products(x: Tensor) -> torch.dtype:
    """Return the type in which matrix products with x are computed: that of an autocast, or its
    own."""
    device = x.device.type
    has_autocast = torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)
    return torch.get_autocast_dtype(device) if has_autocast else x.dtype


@cache  # one warning is enough
def warn_if_slow(capability: str) -> None:
    """Warn that a CPU without AVX512 computes in bfloat16 what it could do faster in float32."""
    if capability == "AVX2":  # PyTorch then has no fast products: 20 times slower, measured
        logger.warning("bfloat16 is many times slower than float32 on this CPU: it has no AVX512")

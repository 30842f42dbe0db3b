"""The matrix products of an update alone: of the same shapes and types, in the same order, with
nothing between them. An update cannot be faster."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

ALONE = {"mm", "addmm", "bmm", "baddbmm", "_linear_pointwise"}
ATTENTION = "_scaled_dot_product_"  # kernels, which also compute a softmax between two products


class Products(TorchDispatchMode):
    """Records the products that are computed while it is on."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Callable[[], object]] = []

    def __torch_dispatch__(self, operation, types, arguments=(), options=None):
        name = operation.overloadpacket.__name__
        if name in ALONE:
            self.calls.append(partial(operation, *map(like, arguments), **(options or {})))
        elif name.startswith(ATTENTION):
            self._attention(*map(like, arguments[: 4 if "backward" in name else 3]))
        return operation(*arguments, **(options or {}))

    def _attention(self, *tensors: Tensor) -> None:
        """Record the two products of Equation 1, or the four of its gradients, as the kernel
        computes the scores again five."""
        Q, K, V = tensors[-3:]
        P = Q @ K.transpose(-2, -1)
        forward = [partial(torch.matmul, Q, K.transpose(-2, -1)), partial(torch.matmul, P, V)]
        if len(tensors) == 3:
            self.calls += forward
            return
        of_out, P_T = tensors[0], P.transpose(-2, -1)
        pairs = [(of_out, V.transpose(-2, -1)), (P_T, of_out), (P, K), (P_T, Q)]
        self.calls += [forward[0], *(partial(torch.matmul, *pair) for pair in pairs)]

    def again(self) -> None:
        """Compute them."""
        for call in self.calls:
            call()


def like(value: object) -> object:
    """Return a tensor of ones for a tensor, of the same strides; other things as they are."""
    return torch.ones_like(value) if isinstance(value, Tensor) else value

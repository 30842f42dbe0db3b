"""The matrix products of an update alone: of the same shapes and types, in the same order, with
nothing between them. An update cannot be faster."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

ALONE = ("mm", "addmm", "bmm", "baddbmm", "_linear_pointwise")
ATTENTION = "_scaled_dot_product_"  # kernels, which compute a softmax between two products


class Products(TorchDispatchMode):
    """Records the products that are computed while it is on."""

    tensors: dict[tuple, Tensor] = {}  # noqa: RUF012  (of all records: one of each shape)

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Callable[[], object]] = []

    def __torch_dispatch__(self, operation, types, arguments=(), options=None):
        name = operation.overloadpacket.__name__
        if name in ALONE or name.startswith(ATTENTION):
            self.calls.append(partial(operation, *map(self.like, arguments), **(options or {})))
        return operation(*arguments, **(options or {}))

    def like(self, value: object) -> object:
        """Return a tensor of the same shape and strides for a tensor; other things as they are."""
        if not isinstance(value, Tensor):
            return value
        key = (value.shape, value.stride(), value.dtype)
        if key not in self.tensors:
            self.tensors[key] = value.detach().clone()
        return self.tensors[key]

    def again(self) -> None:
        """Compute them."""
        for call in self.calls:
            call()

"""fairseq launches a kernel per parameter where a GPU takes lists: for copies between 16 and 32
bits, and for the norm of the gradient. And it waits for the GPU at each look at that norm and at
each figure that it logs. Here, kernels take lists; the norm and the figures are read once."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from fairseq import utils
from fairseq.optim.fp16_optimizer import _FP16OptimizerMixin as HalfPrecision
from torch import Tensor

from fairseq_aiayn.repairs.float32_weights import weights_of


def copying_gradients(copy: Callable, optimizer: HalfPrecision) -> None:
    """Copy gradients to 32 bits, where there is something to copy."""
    wide, narrow = in_pairs(optimizer, "grad")
    if wide and optimizer._needs_sync:
        torch._foreach_copy_(wide, narrow)
        optimizer._needs_sync = False
    copy(optimizer)


def copying_weights(copy: Callable, optimizer: HalfPrecision) -> None:
    """Copy weights from 32 bits."""
    wide, narrow = in_pairs(optimizer, "data")
    if wide:
        torch._foreach_copy_(narrow, wide)
    else:
        copy(optimizer)


def in_pairs(optimizer: HalfPrecision, name: str) -> tuple[list[Tensor], list[Tensor]]:
    """Return "grad" or "data" of all parameters in 32 bits, and in 16; nothing if one is missing.
    --fp16 has those in 32 bits as one vector, or as one for each GPU, which are left alone."""
    narrow = [getattr(weight, name) for weight in optimizer.fp16_params]
    wide = [getattr(weight, name) for weight in weights_of(optimizer)]
    if any(each is None for each in [*narrow, *wide]):
        return [], []
    if optimizer.has_flat_params and len(wide) == 1:
        parts = wide[0].split([each.numel() for each in narrow])
        wide = [part.view_as(each) for part, each in zip(parts, narrow, strict=True)]
    return (wide, narrow) if len(wide) == len(narrow) else ([], [])


def norm_of_lists(norm: Callable) -> Callable:
    """Replace the norm that fairseq takes if apex is installed, and have it taken without."""
    utils.multi_tensor_l2norm_available = True

    @wraps(norm)
    def wrapped(grads: list[Tensor], chunk_size: int = 0) -> Tensor:
        norms = torch._foreach_norm(grads, 2, dtype=torch.float32)
        return torch.stack([each.to(norms[0].device) for each in norms]).norm()

    return wrapped


def read_once(clip: Callable, *arguments: object, **named: object) -> Tensor:
    """Return the norm of the gradient on the CPU."""
    return clip(*arguments, **named).cpu()


def reading_figures(
    log: Callable, trainer: Any, outputs: list[dict], *rest: object, **named: object
) -> object:
    """Log the figures of batches, whose tensors are read together."""
    values = [value for one in outputs or () for value in one.values()]
    numbers = [value for value in values if torch.is_tensor(value) and not value.dim()]
    if len({(x.dtype, x.device) for x in numbers}) == 1:
        read = dict(zip(map(id, numbers), torch.stack(numbers).cpu(), strict=True))
        outputs = [{name: read.get(id(x), x) for name, x in one.items()} for one in outputs]
    return log(trainer, outputs, *rest, **named)

"""With --fp16 and --bf16, fairseq stores the weights in 16 bits only, so that a resumed training
goes on from others. Here, the optimizer's state has those in 32 bits, too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from fairseq.optim.fp16_optimizer import _FP16OptimizerMixin as HalfPrecision


def with_weights(state_dict: Callable, optimizer: HalfPrecision) -> dict[str, Any]:
    """Return the state of --fp16 or --bf16, and the float32 weights in it."""
    weights = [weight.detach() for weight in weights_of(optimizer)]
    return state_dict(optimizer) | {"fp32_params": weights}


def loading_weights(
    load_state_dict: Callable, optimizer: HalfPrecision, state: dict[str, Any], *overrides: object
) -> None:
    """Load this state; that of stock fairseq has no float32 weights."""
    state, weights = dict(state), weights_of(optimizer)
    for weight, stored in zip(weights, state.pop("fp32_params", weights), strict=True):
        weight.data.copy_(stored)
    load_state_dict(optimizer, state, *overrides)


def weights_of(optimizer: HalfPrecision) -> list[torch.Tensor]:
    """Return the float32 weights; --fp16 has them flat, in a dict by the number of the GPU, which
    is another in every process."""
    weights = optimizer.fp32_params
    return [*(weights.values() if isinstance(weights, dict) else weights)]

"""The moments of Adam in a checkpoint, checked before an optimizer loads them."""

from __future__ import annotations

import math

import torch

MOMENTS = ("exp_avg", "exp_avg_sq")  # m and v of Algorithm 1 of Kingma and Ba


def require_moments(state_dict: dict, parameters: list[torch.nn.Parameter]) -> None:
    """Raise ValueError unless an optimizer's state is that of Adam for these parameters."""
    try:
        saved = [number for group in state_dict["param_groups"] for number in group["params"]]
        states = {number: dict(state) for number, state in state_dict["state"].items()}
    except (KeyError, TypeError, ValueError, AttributeError):
        raise ValueError("the optimizer's state must be that of Adam, is not") from None
    if not set(states) <= set(saved):
        raise ValueError("the optimizer's state must be of the parameters that it lists, is not")
    if len(saved) != len(parameters):
        raise ValueError(
            f"the optimizer's state must be of {len(parameters)} parameters, is of {len(saved)}"
        )
    for number, parameter in zip(saved, parameters, strict=True):
        state = states.get(number, {})
        if state and not {"step", *MOMENTS} <= set(state):
            raise ValueError(f"the optimizer's state of parameter {number} must have {MOMENTS}")
        for name in MOMENTS if state else ():
            _require_same_shape(state[name], parameter, f"{name} of parameter {number}")
        if state and not 0 <= _step(state["step"]) < math.inf:
            raise ValueError(
                f"the number of steps of parameter {number} must be a number of at least 0"
            )


def _require_same_shape(moment: object, parameter: torch.nn.Parameter, name: str) -> None:
    shape = list(getattr(moment, "shape", ()))
    whole = isinstance(moment, torch.Tensor) and moment.layout == torch.strided
    # An expanded tensor has fewer elements in memory than its shape says.
    if not whole or moment.shape != parameter.shape or not moment.is_contiguous():
        raise ValueError(
            f"the optimizer's {name} must be a tensor of {list(parameter.shape)}, is one of {shape}"
        )


def _step(value: object) -> float:
    """Return a number of steps, given as a number or as a tensor of one element; NaN for anything
    else."""
    if isinstance(value, torch.Tensor):
        return float(value) if value.numel() == 1 else math.nan
    return float(value) if isinstance(value, int | float) else math.nan

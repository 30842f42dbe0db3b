"""Section 5.3, Equation 3: the learning rate."""

from __future__ import annotations

from math import inf


def learning_rate(step: int, d_model: int, warmup: int, factor: float = 1.0) -> float:
    """Return factor · d_model^−0.5 · min(step^−0.5, step · warmup^−1.5); steps count from 1.

    The rate rises linearly for `warmup` steps to factor · (d_model · warmup)^−0.5, then falls with
    the inverse square root of the step. Raises ValueError for a step, d_model or warmup below 1, or
    a factor that is not a positive number.
    """
    for name, value in (("step", step), ("d_model", d_model), ("warmup", warmup)):
        if value < 1:
            raise ValueError(f"{name} must be at least 1 in Equation 3, got {value}")
    if not 0 < factor < inf:
        raise ValueError(f"the learning-rate factor must be a positive number, got {factor}")
    return factor * d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)

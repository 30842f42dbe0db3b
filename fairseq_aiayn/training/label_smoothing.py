"""Section 5.4: label smoothing after Szegedy et al. (2015)."""

from __future__ import annotations

import torch
from torch import Tensor


def check_smoothing(epsilon_ls: float) -> None:
    """Raise ValueError unless 0 ≤ ε_ls < 1."""
    if not 0.0 <= epsilon_ls < 1.0:
        raise ValueError(f"label smoothing ε must be in [0, 1), got {epsilon_ls}")


def smoothed_targets(target: Tensor, K: int, epsilon_ls: float, dtype: torch.dtype) -> Tensor:
    """Return q'(k) = (1 − ε_ls)·δ(k, y) + ε_ls/K over all K classes: target [n] → [n, K]."""
    one_hot = torch.nn.functional.one_hot(target, K).to(dtype)
    return (1.0 - epsilon_ls) * one_hot + epsilon_ls / K


def reference_smoothed_nll(
    log_p: Tensor, target: Tensor, epsilon_ls: float, padding: int
) -> tuple[Tensor, Tensor]:
    """Compute −Σ_k q'(k) log p(k) term by term: the reference for `smoothed_nll`."""
    real = target.ne(padding)
    log_p, target = log_p[real], target[real]
    q = smoothed_targets(target, log_p.size(-1), epsilon_ls, log_p.dtype)
    nll = -log_p[torch.arange(target.numel()), target]
    return -(q * log_p).sum(), nll.sum()


def smoothed_nll(
    log_p: Tensor, target: Tensor, epsilon_ls: float, padding: int
) -> tuple[Tensor, Tensor]:
    """Return the smoothed loss and the unsmoothed negative log-likelihood, both summed over the
    real tokens, in nats.

    log_p [n, K], log-probabilities; target [n]. Positions whose target is `padding` contribute
    nothing. Uses −Σ_k q'(k) log p(k) = (1 − ε_ls)·(−log p(y)) + ε_ls·mean_k(−log p(k)), which needs
    no second [n, K] matrix.
    """
    is_padding = target.eq(padding)
    nll = -log_p.gather(-1, target.unsqueeze(-1)).squeeze(-1).masked_fill(is_padding, 0.0)
    uniform = -log_p.mean(dim=-1).masked_fill(is_padding, 0.0)
    nll_sum = nll.sum()
    return (1.0 - epsilon_ls) * nll_sum + epsilon_ls * uniform.sum(), nll_sum

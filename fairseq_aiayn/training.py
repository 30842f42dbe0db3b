"""Section 5.4: label smoothing after Szegedy et al. (2015), alone and together with the pre-softmax
projection of section 3.4, computed a few rows at a time.

The logits, n × V, are by far the largest tensor of a batch, and a loss computed from them keeps
several tensors of that size until its gradient is computed. `projected_smoothed_nll` computes the
logits, the loss and the gradient of one chunk of rows together, while the chunk is in the cache,
and then frees the logits.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from fairseq_aiayn.nn.cpu_kernels import linear, rows_of_logits

# Logits per chunk: as many as fit into the cache of a CPU, or enough rows to keep a GPU busy
CHUNK = {"cpu": 2**22, "cuda": 2**27}


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


def reference_projected_smoothed_nll(
    x: Tensor, E: Tensor, target: Tensor, epsilon_ls: float, padding: int
) -> tuple[Tensor, Tensor]:
    """Compute `smoothed_nll` of log_softmax(xEᵀ): the reference for `projected_smoothed_nll`."""
    wide = torch.promote_types(x.dtype, torch.float32)
    log_p = torch.log_softmax(torch.nn.functional.linear(x, E), dim=-1, dtype=wide)
    return smoothed_nll(log_p, target, epsilon_ls, padding)


def projected_smoothed_nll(
    x: Tensor,
    E: Tensor,
    target: Tensor,
    epsilon_ls: float,
    padding: int,
    product_type: torch.dtype,
) -> tuple[Tensor, Tensor]:
    """Return the smoothed loss and the unsmoothed negative log-likelihood, both summed over the
    real tokens, in nats.

    x [n, d_model] are the decoder's features, E [V, d_model] is the projection; target [n].
    Positions whose target is `padding` contribute nothing and are not projected. Matrix products
    use `product_type`, everything else at least float32. Only the loss has a gradient, which is
    computed together with it.
    """
    real = target.ne(padding).nonzero().squeeze(1)  # one wait for the GPU; two masks would be two
    x, target = x.index_select(0, real), target.index_select(0, real)
    trains = torch.is_grad_enabled()  # inside `forward` this is always False
    return ProjectedSmoothedNLL.apply(x, E, target, epsilon_ls, product_type, trains)


class ProjectedSmoothedNLL(torch.autograd.Function):
    """The loss of real tokens; stores its gradient instead of the tensors to compute it from."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        E: Tensor,
        target: Tensor,
        epsilon_ls: float,
        product_type: torch.dtype,
        trains: bool,
    ) -> tuple[Tensor, Tensor]:
        """x [n, d_model], E [V, d_model], target [n] without padding → loss, nll."""
        wide = torch.promote_types(x.dtype, torch.float32)
        nll, uniform = x.new_zeros(2, dtype=wide)
        x_gradient, E_gradient = (
            torch.zeros_like(of, dtype=wide) if trains else of.new_empty(0) for of in (x, E)
        )
        E_product = E.to(product_type)
        rows = rows_of_logits(CHUNK, E)
        for first in range(0, x.size(0), rows):
            chunk = slice(first, first + rows)
            x_product = x[chunk].to(product_type)
            logits = linear(x_product, E_product).to(wide)
            p, log_normalizer = softmax(logits)
            nll += (log_normalizer - logits.gather(1, target[chunk, None])).sum()
            uniform += (log_normalizer - logits.mean(dim=1, keepdim=True)).sum()
            if trains:
                difference = minus_targets(p, target[chunk], epsilon_ls).to(product_type)
                x_gradient[chunk] = linear(difference, E_product.T)
                E_gradient += linear(difference.T, x_product.T)
        ctx.save_for_backward(x_gradient, E_gradient)
        ctx.types = x.dtype, E.dtype
        ctx.mark_non_differentiable(nll)
        return (1.0 - epsilon_ls) * nll + epsilon_ls * uniform, nll

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, of_loss: Tensor, of_nll: Tensor
    ) -> tuple[Tensor, Tensor, None, None, None, None]:
        """Return the gradients in x [n, d_model] and E [V, d_model]."""
        x_gradient, E_gradient = ctx.saved_tensors
        x_type, E_type = ctx.types
        of_x, of_E = (of_loss * x_gradient).to(x_type), (of_loss * E_gradient).to(E_type)
        return of_x, of_E, None, None, None, None


def softmax(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Return the probabilities [n, V] of logits [n, V], and log Σ exp of the logits [n, 1].

    The latter is computed from the most probable class, because a second pass of exponentials costs
    as much as a matrix product. The probability of that class is at least 1/V and so never 0.
    """
    p = logits.softmax(dim=-1)
    return p, logits.amax(dim=-1, keepdim=True) - p.amax(dim=-1, keepdim=True).log()


def minus_targets(p: Tensor, target: Tensor, epsilon_ls: float) -> Tensor:
    """Compute p − q' in place, where q' are the smoothed targets: the gradient of the loss in the
    logits [n, V]."""
    p -= epsilon_ls / p.size(-1)
    return p.scatter_add_(1, target[:, None], p.new_full((p.size(0), 1), epsilon_ls - 1.0))

"""Section 5.4's loss together with section 3.4's pre-softmax projection, a few rows at a time.

A batch's logits are by far its largest tensor, n × V, and a loss taken from them keeps several of
that size until its gradient is computed. Here a chunk of rows goes from logits to loss and on to
its gradient at once, while it is in the cache, and is forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from fairseq_aiayn.training.label_smoothing import smoothed_nll

# Logits in a chunk: on a CPU what its cache holds, on a GPU enough rows to fill it.
CHUNK = {"cpu": 2**22, "cuda": 2**27}


def rows_of_logits(budgets: Mapping[str, int], E: Tensor) -> int:
    """How many rows of logits over the types of E [V, d_model] are within its device's budget, at
    least one; a device that has none takes the GPU's."""
    return max(1, budgets.get(E.device.type, budgets["cuda"]) // E.size(0))


def projected_smoothed_nll_as_defined(
    x: Tensor, E: Tensor, target: Tensor, epsilon_ls: float, padding: int
) -> tuple[Tensor, Tensor]:
    """`smoothed_nll` of log_softmax(xEᵀ): the readable twin of `projected_smoothed_nll`."""
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
    """Smoothed loss and plain negative log-likelihood, summed over the real tokens, in nats.

    x [n, d_model] are the decoder's features, E [V, d_model] the projection, target [n]; positions
    whose target is `padding` count nothing and are not even projected. Products are taken in
    `product_type`, all else at least in float32. Only the loss has a gradient, computed with it.
    """
    real = target.ne(padding)
    trains = torch.is_grad_enabled()  # never so inside `forward`
    return ProjectedSmoothedNLL.apply(x[real], E, target[real], epsilon_ls, product_type, trains)


class ProjectedSmoothedNLL(torch.autograd.Function):
    """The loss of real tokens; its gradient is kept instead of what it would be computed from."""

    @staticmethod
    def forward(
        ctx: torch.autograd.function.FunctionCtx,
        x: Tensor,
        E: Tensor,
        target: Tensor,
        epsilon_ls: float,
        product_type: torch.dtype,
        trains: bool,
    ) -> tuple[Tensor, Tensor]:
        """x [n, d_model], E [V, d_model], target [n], none of them padding → loss, nll."""
        wide = torch.promote_types(x.dtype, torch.float32)
        nll, uniform = x.new_zeros(2, dtype=wide)
        x_gradient = torch.zeros_like(x, dtype=wide) if trains else None
        E_gradient = torch.zeros_like(E, dtype=wide) if trains else None
        E_product = E.to(product_type)
        rows = rows_of_logits(CHUNK, E)
        for first in range(0, x.size(0), rows):
            chunk = slice(first, first + rows)
            x_product = x[chunk].to(product_type)
            logits = (x_product @ E_product.T).to(wide)
            p, log_normaliser = softmax(logits)
            nll += (log_normaliser - logits.gather(1, target[chunk, None])).sum()
            uniform += (log_normaliser - logits.mean(dim=1, keepdim=True)).sum()
            if trains:
                difference = minus_targets(p, target[chunk], epsilon_ls).to(product_type)
                x_gradient[chunk] = difference @ E_product
                E_gradient += difference.T @ x_product
        ctx.save_for_backward(x_gradient, E_gradient)
        ctx.types = x.dtype, E.dtype
        ctx.mark_non_differentiable(nll)
        return (1.0 - epsilon_ls) * nll + epsilon_ls * uniform, nll

    @staticmethod
    def backward(
        ctx: torch.autograd.function.FunctionCtx, of_loss: Tensor, of_nll: Tensor
    ) -> tuple[Tensor, Tensor, None, None, None, None]:
        """∂/∂x [n, d_model], ∂/∂E [V, d_model]."""
        x_gradient, E_gradient = ctx.saved_tensors
        x_type, E_type = ctx.types
        of_x, of_E = (of_loss * x_gradient).to(x_type), (of_loss * E_gradient).to(E_type)
        return of_x, of_E, None, None, None, None


def softmax(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Probabilities [n, V] of logits [n, V], and log Σ exp [n, 1].

    The latter comes from the most probable class, since a second pass of exponentials costs as much
    as a product: its probability, at least 1/V, never is 0.
    """
    p = logits.softmax(dim=-1)
    return p, logits.amax(dim=-1, keepdim=True) - p.amax(dim=-1, keepdim=True).log()


def minus_targets(p: Tensor, target: Tensor, epsilon_ls: float) -> Tensor:
    """p − q' of label smoothing, in place: the gradient of the loss in the logits [n, V]."""
    p -= epsilon_ls / p.size(-1)
    return p.scatter_add_(1, target[:, None], p.new_full((p.size(0), 1), epsilon_ls - 1.0))

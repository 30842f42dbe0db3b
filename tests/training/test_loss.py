"""Label smoothing (5.4); projection, loss and gradient in chunks are those of the whole batch."""

import pytest
import torch
from torch import Tensor

from fairseq_aiayn import training

PAD, V, N, D_MODEL = 1, 23, 14, 8


@pytest.mark.parametrize("epsilon", [0.0, 0.1])
def test_fast_loss_equals_the_defined_one(epsilon: float) -> None:
    """Breaks if the rearranged sum lacks a term, ε = 0 still smooths, the NLL depends on ε, or
    padding enters the loss or a gradient, even if a probability there is 0."""
    torch.manual_seed(0)
    log_p = torch.randn(N, V, dtype=torch.float64).log_softmax(-1).requires_grad_()
    target = torch.randint(2, V, (N,))
    target[[3, 7]] = PAD
    real = target.ne(PAD)
    nll = torch.nn.functional.nll_loss(log_p[real], target[real], reduction="sum")
    losses, gradients = [], []
    for loss_of in (training.smoothed_nll, training.reference_smoothed_nll):
        sums = loss_of(log_p, target, epsilon, PAD)
        torch.testing.assert_close(sums, loss_of(log_p[real], target[real], epsilon, PAD))
        torch.testing.assert_close(sums[1], nll)
        losses.append(sums[0])
        gradients.append(*torch.autograd.grad(sums[0], log_p))
    torch.testing.assert_close(*losses)
    torch.testing.assert_close(*gradients)
    assert gradients[0].any(dim=1).tolist() == real.tolist()
    if epsilon == 0.0:
        torch.testing.assert_close(losses[0], nll)


def tensors(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    x = torch.randn(N, D_MODEL, dtype=dtype, requires_grad=True)
    E = torch.randn(V, D_MODEL, dtype=dtype, requires_grad=True)
    target = torch.randint(2, V, (N,))
    target[[0, 5, N - 1]] = PAD
    return x, E, target


def gradients(loss: Tensor, *inputs: Tensor) -> tuple[Tensor, ...]:
    """The gradients of 3 · loss, because fairseq's trainer may scale the loss."""
    return torch.autograd.grad(3.0 * loss, inputs)


@pytest.mark.parametrize(
    ("budget", "largest"), [(V - 1, 1), (5 * V - 1, 4), (5 * V, 5), (100 * V, N - 3), (None, N - 3)]
)
def test_chunks_equal_the_reference(monkeypatch, budget, largest):
    """On a device without a budget of its own, too. Breaks if a chunk is lost, counted twice or
    larger than its budget, padding counts, or the gradient belongs to another loss."""
    if budget is None:
        monkeypatch.delitem(training.CHUNK, "cpu")
    else:
        monkeypatch.setitem(training.CHUNK, "cpu", budget)
    chunks, softmax = [], training.softmax
    monkeypatch.setattr(training, "softmax", lambda p: (chunks.append(len(p)), softmax(p))[1])
    x, E, target = tensors()
    loss, nll = training.projected_smoothed_nll(x, E, target, 0.1, PAD, torch.float64)
    assert sum(chunks) == N - 3 and max(chunks) == largest
    expected = training.reference_projected_smoothed_nll(x, E, target, 0.1, PAD)
    torch.testing.assert_close((loss, nll), expected)
    torch.testing.assert_close(gradients(loss, x, E), gradients(expected[0], x, E))


def test_only_the_first_derivative_exists():
    """Breaks if a second derivative silently lacks what the gradient's own terms contribute."""
    x, E, target = tensors()
    loss, _ = training.projected_smoothed_nll(x, E, target, 0.1, PAD, torch.float64)
    (gradient,) = torch.autograd.grad(loss.square(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.square().sum().backward()


def test_certain_and_impossible_classes_give_finite_numbers():
    """Breaks if the normalizer is computed from a probability that rounds to 0."""
    x = torch.tensor([[300.0, 0.0]], requires_grad=True)
    E = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [-1.0, 0.0]], requires_grad=True)
    for target, nll in ((2, 0.0), (3, 600.0)):
        sums = training.projected_smoothed_nll(
            x, E, torch.tensor([target]), 0.0, PAD, torch.float32
        )
        assert [part.item() for part in sums] == [nll, nll]
        assert all(gradient.isfinite().all() for gradient in gradients(sums[0], x, E))


def test_bfloat16_products_keep_the_loss_and_the_type_of_gradients():
    """Breaks if sums over chunks, or the softmax, are computed in bfloat16."""
    x, E, target = tensors(torch.float32)
    loss, _ = training.projected_smoothed_nll(x, E, target, 0.1, PAD, torch.bfloat16)
    with torch.autocast("cpu", torch.bfloat16):
        expected, _ = training.reference_projected_smoothed_nll(x, E, target, 0.1, PAD)
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, expected, rtol=1e-5, atol=0.0)
    ours, references = gradients(loss, x, E), gradients(expected, x, E)
    torch.testing.assert_close(ours, references, rtol=0.02, atol=0.02)


def test_a_batch_of_padding_costs_nothing():
    """fairseq's dummy batches may contain only padding. Breaks with NaN or an error."""
    x, E, _ = tensors()
    loss, nll = training.projected_smoothed_nll(
        x, E, torch.full((N,), PAD), 0.1, PAD, torch.float64
    )
    assert (loss.item(), nll.item()) == (0.0, 0.0)
    assert all(gradient.eq(0).all() for gradient in gradients(loss, x, E))


def test_no_gradient_is_computed_where_none_is_wanted(monkeypatch):
    """Breaks if validation computes two matrix products that nothing uses."""
    monkeypatch.setattr(training, "minus_targets", lambda *arguments: pytest.fail("computed"))
    x, E, target = tensors()
    with torch.no_grad():
        training.projected_smoothed_nll(x, E, target, 0.1, PAD, torch.float64)

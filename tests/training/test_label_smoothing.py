"""Section 5.4: label smoothing, and the criterion that reports it to fairseq."""

from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import torch
from fairseq.data import Dictionary

from fairseq_aiayn.plugin.training import AiaynLabelSmoothedCrossEntropy
from fairseq_aiayn.training import reference_smoothed_nll, smoothed_nll

PAD, K, N = 1, 7, 10


@pytest.mark.parametrize("epsilon", [0.0, 0.1])
def test_fast_loss_equals_the_defined_one(epsilon: float) -> None:
    """Breaks if the rearranged sum lacks a term, ε = 0 still smooths, the NLL depends on ε, or
    padding enters the loss or a gradient, even if a probability there is 0."""
    torch.manual_seed(0)
    log_p = torch.randn(N, K, dtype=torch.float64).log_softmax(-1).requires_grad_()
    target = torch.randint(2, K, (N,))
    target[[3, 7]] = PAD
    real = target.ne(PAD)
    nll = torch.nn.functional.nll_loss(log_p[real], target[real], reduction="sum")
    losses, gradients = [], []
    for loss_of in (smoothed_nll, reference_smoothed_nll):
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


def criterion(epsilon: float) -> AiaynLabelSmoothedCrossEntropy:
    """The criterion over a dictionary, as fairseq's task creates it."""
    task = SimpleNamespace(target_dictionary=Dictionary())
    return AiaynLabelSmoothedCrossEntropy(task, sentence_avg=False, label_smoothing=epsilon)


def test_criterion_sums_both_losses_over_real_tokens() -> None:
    """fairseq makes bits a token and perplexity of them. Breaks if padding counts as a token, or if
    the perplexity is that of the smoothed loss."""
    torch.manual_seed(0)
    logits, target = torch.randn(2, 5, K), torch.randint(2, K, (2, 5))
    target[1, 2:] = PAD
    log_p, n = logits.log_softmax(-1), 7
    model = Mock(return_value=(logits,), get_normalized_probs=lambda *_, **__: log_p)
    model.get_targets = lambda sample, output: sample["target"]
    sample = {"net_input": {"prev_output_tokens": target}, "target": target, "ntokens": n}
    loss, sample_size, log = criterion(0.1)(model, sample)
    expected = reference_smoothed_nll(log_p.flatten(0, 1), target.flatten(), 0.1, PAD)
    torch.testing.assert_close((loss, log["nll_loss"]), expected)
    assert (log["loss"], sample_size, log["sample_size"], log["ntokens"]) == (loss, n, n, n)


def test_criterion_refuses_an_impossible_epsilon() -> None:
    """Breaks if training towards negative probabilities is possible."""
    for epsilon in (-0.1, 1.0):
        with pytest.raises(ValueError, match=rf"must be in \[0, 1\), got {epsilon}"):
            criterion(epsilon)

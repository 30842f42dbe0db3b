"""Section 5.4: label smoothing, and the criterion that reports it to fairseq."""

import math
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import torch
from fairseq.data import Dictionary
from fairseq.logging import metrics
from torch import Tensor

from fairseq_aiayn.plugin.training import AiaynLabelSmoothedCrossEntropy
from fairseq_aiayn.training import reference_smoothed_nll, smoothed_nll

PAD, K, N = 1, 7, 10


def random_batch() -> tuple[Tensor, Tensor]:
    """Log-probabilities [N, K] in float64 and targets [N], two of them padding."""
    torch.manual_seed(0)
    target = torch.randint(2, K, (N,))
    target[[3, 7]] = PAD
    return torch.randn(N, K, dtype=torch.float64).log_softmax(-1).requires_grad_(), target


@pytest.mark.parametrize("epsilon", [0.0, 0.1])
def test_fast_loss_equals_the_defined_one(epsilon: float) -> None:
    """Breaks if the rearranged sum lacks a term, ε = 0 still smooths, the NLL depends on ε, or
    padding enters the loss or a gradient, even if a probability there is 0."""
    log_p, target = random_batch()
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


def model_of(logits: Tensor) -> Mock:
    """A model with given logits and the methods that a criterion calls."""
    model = Mock(return_value=(logits,))
    model.get_normalized_probs = lambda output, log_probs: output[0].log_softmax(-1)
    model.get_targets = lambda sample, output: sample["target"]
    return model


def test_criterion_logs_bits_a_token_and_perplexity() -> None:
    """The logs of two workers are summed before the division. Breaks if the loss is in nats,
    padding counts as a token, the perplexity is that of the smoothed loss, or e^bits replaces
    2^bits."""
    torch.manual_seed(0)
    loss = nll = tokens = 0.0
    logs = []
    for length in (5, 3):
        logits, target = torch.randn(2, length, K), torch.randint(2, K, (2, length))
        target[1, 2:] = PAD
        n = int(target.ne(PAD).sum())
        net_input = {"prev_output_tokens": target}
        sample = {"net_input": net_input, "target": target, "ntokens": n}
        summed, sample_size, log = criterion(0.1)(model_of(logits), sample)
        assert sample_size == n
        logs.append(log)
        log_p = logits.log_softmax(-1).flatten(0, 1)
        parts = reference_smoothed_nll(log_p, target.flatten(), 0.1, PAD)
        torch.testing.assert_close(summed, parts[0])
        loss, nll, tokens = loss + parts[0].item(), nll + parts[1].item(), tokens + n
    with metrics.aggregate() as logged:
        AiaynLabelSmoothedCrossEntropy.reduce_metrics(logs)
    values = logged.get_smoothed_values()
    assert values["loss"] == pytest.approx(loss / tokens / math.log(2), abs=5e-4)
    assert values["nll_loss"] == pytest.approx(nll / tokens / math.log(2), abs=5e-4)
    assert values["ppl"] == pytest.approx(math.exp(nll / tokens), abs=1e-2)


def test_criterion_refuses_an_impossible_epsilon() -> None:
    """Breaks if training towards negative probabilities is possible."""
    for epsilon in (-0.1, 1.0):
        with pytest.raises(ValueError, match=rf"must be in \[0, 1\), got {epsilon}"):
            criterion(epsilon)

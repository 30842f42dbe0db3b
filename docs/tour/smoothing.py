"""Section 5.4: how much label smoothing "hurts perplexity", and what it does to a model."""

from __future__ import annotations

from collections.abc import Mapping
from math import exp

import torch

from fairseq_aiayn.nn.transformer import Transformer
from fairseq_aiayn.paper import BASE, D_LS0, D_LS02, VOCABULARY_EN_DE
from fairseq_aiayn.report.document import Table
from fairseq_aiayn.scores import paper_bleu
from fairseq_aiayn.training import smoothed_targets
from tour.number_words import PADDING
from tour.training import DEVELOPMENT, batch_of, development_loss
from tour.translation import translate

ROWS = {0.0: D_LS0, 0.1: BASE, 0.2: D_LS02}  # ε_ls, and the row of Table 3 that has it
ANY_WORD = 2


def targets_of_one_word(epsilon_ls: float, K: int) -> torch.Tensor:
    """Return q' [K] of Szegedy et al. for one word, in float64."""
    return smoothed_targets(torch.tensor([ANY_WORD]), K, epsilon_ls, torch.float64)[0]


def smallest_loss(epsilon_ls: float, K: int) -> float:
    """Return the smoothed loss of a model that gives K words the probabilities q': the entropy of
    q' in nats."""
    return torch.special.entr(targets_of_one_word(epsilon_ls, K)).sum().item()


def floors() -> Table:
    """Return the smallest loss that a model can reach for a word that is certain."""
    K = VOCABULARY_EN_DE
    rows = []
    for epsilon_ls, row in ROWS.items():
        p = targets_of_one_word(epsilon_ls, K)[ANY_WORD].item()
        computed = f"{p:.3f}", f"{smallest_loss(epsilon_ls, K):.2f}", f"{1 / p:.2f}"
        published = str(row.published.ppl), str(row.published.bleu)
        rows.append([f"{epsilon_ls:g}", *computed, *published])
    header = ["ε_ls", "P(y) at the smallest loss", "smallest loss in nats", "its perplexity"]
    return Table([*header, "perplexity in Table 3", "BLEU in Table 3"], rows, left=0)


def compare_trained(models: Mapping[float, Transformer]) -> Table:
    """Compare models by the ε_ls of their training, on numbers that they have not seen."""
    references = [" ".join(german) for _, german in DEVELOPMENT]
    rows = []
    for epsilon_ls, model in models.items():
        entropy, largest = _certainty(model)
        outputs = [" ".join(words) for words in translate(model, DEVELOPMENT)]
        right = sum(map(str.__eq__, outputs, references)) / len(references)
        perplexity, bleu = exp(development_loss(model)), paper_bleu(outputs, references, "de")
        columns = f"{perplexity:.2f}", f"{entropy:.2f}", f"{largest:.2f}", f"{bleu.score:.1f}"
        rows.append([f"{epsilon_ls:g}", *columns, f"{right:.1%}"])
    header = ["ε_ls", "perplexity", "entropy of P in nats", "largest P", "BLEU", "numbers right"]
    return Table(header, rows, left=0)


@torch.no_grad()
def _certainty(model: Transformer) -> tuple[float, float]:
    """Return the mean entropy of P(next word) in nats, and the mean of its largest value."""
    batch = batch_of(DEVELOPMENT)
    model.eval()
    log_p = model(batch.source, batch.shifted).log_softmax(dim=-1)[batch.target.ne(PADDING)]
    entropy = -(log_p.exp() * log_p).sum(dim=-1)
    return entropy.mean().item(), log_p.exp().amax(dim=-1).mean().item()

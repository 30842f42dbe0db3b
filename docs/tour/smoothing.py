"""Section 5.4: label smoothing "hurts perplexity", by how much, and what it is for."""

from __future__ import annotations

from collections.abc import Mapping
from math import exp

import torch

from fairseq_aiayn.nn.transformer import Transformer
from fairseq_aiayn.paper import BASE, D_LS0, D_LS02, VOCABULARY_EN_DE
from fairseq_aiayn.report.document import Table
from fairseq_aiayn.scores.bleu import paper_bleu
from fairseq_aiayn.training.label_smoothing import reference_smoothed_nll, smoothed_targets
from tour.training import DEVELOPMENT, PADDING, batch_of, development_loss
from tour.translation import translate

RATES = {0.0: D_LS0, 0.1: BASE, 0.2: D_LS02}  # ε_ls and the row of Table 3 that has it


def floors() -> Table:
    """Return the smallest loss that a model can reach for a word that is certain.

    It is the entropy of q'; the model that reaches it gives the word q'(y), not 1.
    """
    target = torch.tensor([2])
    rows = []
    for epsilon_ls in RATES:
        q = smoothed_targets(target, VOCABULARY_EN_DE, epsilon_ls, torch.float64)
        loss, nll = reference_smoothed_nll(q.log().clamp(min=-1e9), target, epsilon_ls, PADDING)
        row = f"{epsilon_ls:g}", f"{q[0, 2]:.3f}", f"{abs(loss):.2f}", f"{exp(nll):.2f}"
        rows.append([*row, *(str(value) for value in _published(epsilon_ls))])
    header = ["ε_ls", "P(y) at the smallest loss", "smallest loss in nats", "its perplexity"]
    return Table([*header, "perplexity in Table 3", "BLEU in Table 3"], rows, left=0)


def _published(epsilon_ls: float) -> tuple[float | None, float | None]:
    published = RATES[epsilon_ls].published
    return published.ppl, published.bleu


def trained(models: Mapping[float, Transformer]) -> Table:
    """Compare models that were trained with each ε_ls, on numbers that they have not seen."""
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
    """Return the mean entropy of P(next word) and the mean of its largest value."""
    batch = batch_of(DEVELOPMENT)
    model.eval()
    log_p = model(batch.source, batch.shifted).log_softmax(dim=-1)[batch.target.ne(PADDING)]
    entropy = -(log_p.exp() * log_p).sum(dim=-1)
    return entropy.mean().item(), log_p.exp().amax(dim=-1).mean().item()

"""The hypotheses of a batch during the search, k a sentence, and the finished ones it returns."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Hypothesis:
    """A finished output: tokens [n] with the end token, log P of each [n], log P(Y|X) / lp(Y)."""

    tokens: Tensor
    token_log_p: Tensor
    score: float


@dataclass
class Pool:
    """k hypotheses of every sentence: tokens, their log-probabilities [B, k, L], a value [B, k].

    The value, by which they are ranked, is log P(Y|X) for open hypotheses and the penalised score
    for finished ones; −∞ marks an empty place.
    """

    tokens: Tensor
    token_log_p: Tensor
    value: Tensor

    def pick(self, beams: Tensor) -> Pool:
        """The hypotheses beams [B, j] of each sentence, as a pool of j."""
        places = beams.unsqueeze(-1).expand(-1, -1, self.tokens.size(-1))
        return Pool(
            self.tokens.gather(1, places),
            self.token_log_p.gather(1, places),
            self.value.gather(1, beams),
        )

    def extended(self, position: int, tokens: Tensor, token_log_p: Tensor, value: Tensor) -> Pool:
        """This pool with tokens [B, k] written at `position`, and a new value."""
        self.tokens[:, :, position] = tokens
        self.token_log_p[:, :, position] = token_log_p
        return Pool(self.tokens, self.token_log_p, value)

    def merged(self, other: Pool) -> Pool:
        """The k best of both pools, best first."""
        both = Pool(
            torch.cat([self.tokens, other.tokens], dim=1),
            torch.cat([self.token_log_p, other.token_log_p], dim=1),
            torch.cat([self.value, other.value], dim=1),
        )
        return both.pick(both.value.topk(self.value.size(1), dim=1).indices)

    def sentences(self, kept: Tensor) -> Pool:
        """The pool of these sentences [B'] only."""
        return Pool(self.tokens[kept], self.token_log_p[kept], self.value[kept])

    def hypotheses(self, sentence: int, padding: int) -> list[Hypothesis]:
        """The hypotheses of one sentence, best first, without empty places."""
        found = []
        for beam, score in enumerate(self.value[sentence].tolist()):
            if score > -math.inf:
                n = int(self.tokens[sentence, beam].ne(padding).sum())
                found.append(
                    Hypothesis(
                        self.tokens[sentence, beam, :n].clone(),
                        self.token_log_p[sentence, beam, :n].clone(),
                        score,
                    )
                )
        return found

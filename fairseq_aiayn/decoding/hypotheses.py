"""The hypotheses of a batch: the steps of the search, the finished hypotheses, and their tokens.

A hypothesis is a chain of back-pointers. So a step writes one token per beam and copies no tokens.
The tokens of the best hypotheses are read back once, when the search is over.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Hypothesis"]


@dataclass(frozen=True)
class Hypothesis:
    """A finished output: its tokens [n] including the end token, log P of each token [n], and its
    score, log P(Y|X) / lp(Y)."""

    tokens: Tensor
    token_log_p: Tensor
    score: float


@dataclass(frozen=True)
class Step:
    """One step of the search in each active sentence: the tokens, their log P, and the beam of the
    previous step that each one continues, all [B, k]."""

    token: Tensor
    token_log_p: Tensor
    parent: Tensor


class History:
    """All steps of a search, for all sentences; every tensor is [steps, B, k]."""

    def __init__(self, steps: int, B: int, k: int, device: torch.device):
        self.token = torch.zeros(steps, B, k, dtype=torch.long, device=device)
        self.parent = torch.zeros_like(self.token)
        self.token_log_p = torch.zeros(steps, B, k, device=device)

    def write(self, position: int, sentences: Tensor, step: Step) -> None:
        """Store the step that writes the token at `position`, for these sentences [B']."""
        self.token[position, sentences] = step.token
        self.parent[position, sentences] = step.parent
        self.token_log_p[position, sentences] = step.token_log_p

    def read(self, finished: Finished, end: int) -> list[list[Hypothesis]]:
        """Return the finished hypotheses of every sentence, best first, on the CPU.

        A hypothesis is read from its end to its beginning. With k = 2 and

            position   0      1       2
            token      A B    C D     E F
            parent     0 0    1 0     0 1      (beam of the position before)

        a hypothesis that ends at position 3 on beam 1 has F at position 2. The parent of F is beam
        1, which holds D, and the parent of D is beam 0, which holds A. So its tokens are A D F and
        the end token.
        """
        last, beam = finished.last, finished.beam
        tokens, log_p = [], []
        for position in reversed(range(int(last.max()))):
            tokens.append(self.token[position].gather(1, beam))
            log_p.append(self.token_log_p[position].gather(1, beam))
            # A hypothesis that ends before this position stays at its last beam.
            parent = self.parent[position].gather(1, beam)
            beam = torch.where(last.gt(position), parent, beam)
        # [B, n, L], in the order of positions; the end token comes last
        all_tokens = torch.stack([*tokens[::-1], torch.full_like(last, end)], dim=2).cpu()
        all_log_p = torch.stack([*log_p[::-1], finished.end_log_p], dim=2).cpu()
        columns = (all_tokens, all_log_p, last.tolist(), finished.score.tolist())
        return [
            [
                Hypothesis(with_end(y, n), with_end(y_log_p, n), score)
                for y, y_log_p, n, score in zip(*sentence, strict=True)
                if score > -math.inf
            ]
            for sentence in zip(*columns, strict=True)
        ]


def with_end(values: Tensor, n: int) -> Tensor:
    """Return the first n values and the last one, which belongs to the end token."""
    return torch.cat([values[:n], values[-1:]])


@dataclass(frozen=True)
class Finished:
    """The n best finished hypotheses of every sentence, best first; all tensors are [B, n].

    score: log P(Y|X) / lp(Y), −∞ if there is none; last: the position of the end token; beam: the
    beam of the previous step that it ends; end_log_p: log P of the end token.
    """

    score: Tensor
    last: Tensor
    beam: Tensor
    end_log_p: Tensor

    @staticmethod
    def none(B: int, n: int, device: torch.device) -> Finished:
        """Return n hypotheses per sentence that any other displaces."""
        zeros = torch.zeros(B, n, dtype=torch.long, device=device)
        score = torch.full((B, n), -math.inf, device=device)
        return Finished(score, zeros, zeros.clone(), torch.zeros_like(score))

    def merged(self, other: Finished) -> Finished:
        """Return the n best hypotheses of both."""
        score, best = torch.cat([self.score, other.score], dim=1).topk(self.score.size(1), dim=1)
        return Finished(
            score,
            *(
                torch.cat([getattr(self, name), getattr(other, name)], dim=1).gather(1, best)
                for name in ("last", "beam", "end_log_p")
            ),
        )

    def only(self, kept: Tensor) -> Finished:
        """Return only the hypotheses of these sentences [B']."""
        return Finished(*(value[kept] for value in vars(self).values()))

    def write(self, sentences: Tensor, other: Finished) -> None:
        """Replace the hypotheses of these sentences [B'] by those of `other`, in place."""
        for mine, value in zip(vars(self).values(), vars(other).values(), strict=True):
            mine[sentences] = value

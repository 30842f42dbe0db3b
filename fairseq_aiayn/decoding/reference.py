"""Slow, plain twins of the beam search, one sentence at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from fairseq_aiayn.decoding.length_penalty import length_penalty

# log P of every next token after these
Model = Callable[[tuple[int, ...]], Sequence[float]]
Scored = tuple[float, tuple[int, ...]]


def exhaustive_search(model: Model, end: int, alpha: float, max_length: int) -> list[Scored]:
    """Every output of up to max_length tokens and `end`, with its penalised score, best first."""
    found: list[Scored] = []

    def grow(tokens: tuple[int, ...], log_p: float) -> None:
        for token, token_log_p in enumerate(model(tokens)):
            longer, total = (*tokens, token), log_p + token_log_p
            if token == end:
                found.append((total / length_penalty(len(longer), alpha), longer))
            elif len(longer) <= max_length and total > -math.inf:
                grow(longer, total)

    grow((), 0.0)
    return sorted(found, reverse=True)


def plain_beam_search(
    model: Model, end: int, beam: int, alpha: float, max_length: int
) -> list[Scored]:
    """Beam search without early end; hypotheses end among the `beam` best. Best first."""
    alive: list[Scored] = [(0.0, ())]
    finished: list[Scored] = []
    for length in range(1, max_length + 2):
        candidates = sorted(
            (
                (log_p + token_log_p, (*tokens, token))
                for log_p, tokens in alive
                for token, token_log_p in enumerate(model(tokens))
                if token == end or length <= max_length
            ),
            reverse=True,
        )
        for log_p, tokens in candidates[:beam]:
            if tokens[-1] == end and log_p > -math.inf:
                finished.append((log_p / length_penalty(length, alpha), tokens))
        alive = [candidate for candidate in candidates if candidate[1][-1] != end][:beam]
    return sorted(finished, reverse=True)

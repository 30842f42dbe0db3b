"""Slow reference implementations of the beam search, for one sentence at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from fairseq_aiayn.decoding.length_penalty import length_penalty

# Returns log P of every next token, given the tokens so far
Model = Callable[[tuple[int, ...]], Sequence[float]]
Scored = tuple[float, tuple[int, ...]]


def exhaustive_search(model: Model, end: int, alpha: float, max_length: int) -> list[Scored]:
    """Return every output of up to max_length tokens followed by `end`, with its score after the
    length penalty, best first."""
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
    """Return the outputs of a beam search without early stopping, best first.

    A hypothesis ends if its `end` is among the `beam` best continuations.
    """
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

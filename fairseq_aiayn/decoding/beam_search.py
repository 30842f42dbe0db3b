"""Section 6.1: beam search with the length penalty of Wu et al. (2016), ended as early as possible.

Shape letters as in fairseq_aiayn.nn, and: k hypotheses kept a sentence (the beam), L the longest
output with its end-of-sentence token.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from fairseq_aiayn.decoding.hypotheses import Hypothesis, Pool
from fairseq_aiayn.decoding.length_penalty import length_penalty


@dataclass(frozen=True)
class SearchOptions:
    """What a user chooses: beam size k, length penalty α, shortest output, and how many are wanted.

    A sentence's search ends once no open hypothesis can still enter its `nbest` best.
    """

    beam: int
    alpha: float
    min_length: int = 1
    nbest: int = 1

    def __post_init__(self) -> None:
        if self.beam < 1:
            raise ValueError(f"the beam size must be at least 1, got {self.beam}")
        if not (math.isfinite(self.alpha) and self.alpha >= 0):
            raise ValueError(
                f"the length penalty α must be a number of at least 0, got {self.alpha}"
            )
        if not 1 <= self.nbest <= self.beam:
            raise ValueError(
                f"nbest must be between 1 and the beam size {self.beam}, got {self.nbest}"
            )
        if self.min_length < 0:
            raise ValueError(f"the minimum length must not be negative, got {self.min_length}")


@dataclass(frozen=True)
class Symbols:
    """Tokens with a meaning for the search; `end`, as in fairseq, also stands before the first."""

    end: int
    padding: int


class Continuations(Protocol):
    """A model, or an ensemble, with its decoding state."""

    def log_probabilities(self, tokens: Tensor) -> Tensor:
        """Append the newest tokens [B·k, 1] and return log P(next token), [B·k, V] float32."""

    def reorder_beams(self, beams: Tensor) -> None:
        """Let row i continue what row beams[i] has seen; beams [B'·k]."""

    def keep_sentences(self, sentences: Tensor) -> None:
        """Go on with these sentences [B'] only."""


@torch.no_grad()
def beam_search(
    continuations: Continuations,
    max_lengths: Tensor,
    symbols: Symbols,
    options: SearchOptions,
    prefix: Tensor | None = None,
) -> list[list[Hypothesis]]:
    """Search the best outputs of a batch of sentences.

    max_lengths [B]: tokens that each output may have before its end-of-sentence token;
    prefix [B, p]: tokens that each output must begin with, padded on the right. A hypothesis is
    finished when its end-of-sentence token is among the k best continuations; a sentence is done
    when the best open hypothesis, were it to gain no more cost until the longest output, could not
    displace the `nbest`-th finished one. Returns, a sentence, up to k hypotheses, best first.
    """
    B, k, longest = max_lengths.numel(), options.beam, int(max_lengths.max())
    check_lengths(max_lengths, symbols, options, prefix)
    results: list[list[Hypothesis]] = [[] for _ in range(B)]
    open_sentences = torch.arange(B, device=max_lengths.device)
    alive, finished = start_pools(B, k, longest + 1, symbols, max_lengths.device)
    newest = torch.full((B * k, 1), symbols.end, device=max_lengths.device)
    for step in range(longest + 1):
        log_p = continuations.log_probabilities(newest)
        log_p = log_p.view(open_sentences.numel(), k, -1)
        restrict(log_p, step, symbols, options, max_lengths, prefix)
        alive, ended, parents = advance(alive, log_p, step, symbols)
        ended.value /= length_penalty(step + 1, options.alpha)
        finished = finished.merged(ended)
        done = is_done(alive, finished, max_lengths, options)
        kept = (~done).nonzero().squeeze(1)
        for sentence in done.nonzero().squeeze(1).tolist():
            results[open_sentences[sentence]] = finished.hypotheses(sentence, symbols.padding)
        if not kept.numel():
            break
        if kept.numel() < done.numel():
            open_sentences, max_lengths = open_sentences[kept], max_lengths[kept]
            alive, finished = alive.sentences(kept), finished.sentences(kept)
            prefix = None if prefix is None else prefix[kept]
            continuations.keep_sentences(kept)
        continuations.reorder_beams((kept.unsqueeze(1) * k + parents[kept]).flatten())
        newest = alive.tokens[:, :, step].reshape(-1, 1)
    if not all(results):
        raise ValueError("the model gives no output a finite probability: are its weights NaN?")
    return results


def check_lengths(
    max_lengths: Tensor, symbols: Symbols, options: SearchOptions, prefix: Tensor | None
) -> None:
    """Raise ValueError where an output would have to be longer than it may be."""
    shortest = int(max_lengths.min())
    if shortest < options.min_length:
        raise ValueError(
            f"the minimum length {options.min_length} exceeds the maximum length {shortest} of"
            " an output"
        )
    if prefix is not None:
        lengths = (prefix.ne(symbols.padding) & prefix.ne(symbols.end)).sum(dim=1)
        for length, longest in zip(lengths.tolist(), max_lengths.tolist(), strict=True):
            if length > longest:
                raise ValueError(
                    f"a prefix of {length} tokens exceeds the maximum length {longest} of an output"
                )


def start_pools(
    B: int, k: int, L: int, symbols: Symbols, device: torch.device
) -> tuple[Pool, Pool]:
    """Pools before the first step: one empty hypothesis open, since copies would grow alike."""

    def empty() -> Pool:
        return Pool(
            torch.full((B, k, L), symbols.padding, device=device),
            torch.zeros(B, k, L, device=device),
            torch.full((B, k), -math.inf, device=device),
        )

    alive, finished = empty(), empty()
    alive.value[:, 0] = 0.0
    return alive, finished


def restrict(
    log_p: Tensor,
    step: int,
    symbols: Symbols,
    options: SearchOptions,
    max_lengths: Tensor,
    prefix: Tensor | None,
) -> None:
    """Put −∞, in place, where log_p [B, k, V] is padding, too short, too long or not the prefix."""
    tokens = torch.arange(log_p.size(-1), device=log_p.device)
    ending = tokens.eq(symbols.end)
    wanted = torch.full_like(max_lengths, symbols.padding)
    if prefix is not None and step < prefix.size(1):
        wanted = prefix[:, step]
    free = wanted.eq(symbols.padding).unsqueeze(1)  # [B, 1]: there is no prefix, or it has ended
    forbidden = tokens.eq(symbols.padding) | ~free & tokens.ne(wanted.unsqueeze(1))  # [B, V]
    forbidden |= max_lengths.eq(step).unsqueeze(1) & ~ending
    if step < options.min_length:
        forbidden |= free & ending
    log_p.masked_fill_(forbidden.unsqueeze(1), -math.inf)


def advance(alive: Pool, log_p: Tensor, step: int, symbols: Symbols) -> tuple[Pool, Pool, Tensor]:
    """Extend the open hypotheses by their best next tokens, log_p [B, k, V].

    Returns the k best that go on, the up to k that end here (value: log P(Y|X), −∞ elsewhere), and
    the beams [B, k] that the open ones come from. Among the 2k best at most k end, so that k can
    always go on.
    """
    B, k, V = log_p.shape
    total = (alive.value.unsqueeze(-1) + log_p).view(B, k * V)
    value, place = total.topk(min(2 * k, k * V), dim=1)
    parent, token = place.div(V, rounding_mode="floor"), place % V
    token_log_p = log_p.view(B, k * V).gather(1, place)
    ends = token.eq(symbols.end)

    def extend(chosen: Tensor, chosen_value: Tensor) -> Pool:
        pool = alive.pick(parent.gather(1, chosen))
        return pool.extended(
            step, token.gather(1, chosen), token_log_p.gather(1, chosen), chosen_value
        )

    best = torch.arange(k, device=place.device).expand(B, k)
    ended = extend(best, value[:, :k].masked_fill(~ends[:, :k], -math.inf))
    # Those that do not end, still best first
    going_on = ends.sort(dim=1, stable=True).indices[:, :k]
    open_value = value.masked_fill(ends, -math.inf).gather(1, going_on)
    return extend(going_on, open_value), ended, parent.gather(1, going_on)


def is_done(alive: Pool, finished: Pool, max_lengths: Tensor, options: SearchOptions) -> Tensor:
    """[B], True where no open hypothesis can still enter the `nbest` finished ones.

    log P only falls and, for α ≥ 0, lp only rises with length, so log P(so far) / lp(longest)
    bounds every score to come.
    """
    bound = alive.value.max(dim=1).values / length_penalty(max_lengths + 1, options.alpha)
    return finished.value[:, options.nbest - 1] >= bound

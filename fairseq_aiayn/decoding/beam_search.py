"""Section 6.1: beam search with the length penalty of Wu et al. (2016), ended as early as possible.

Shape letters as in fairseq_aiayn.nn, and: k hypotheses kept a sentence (the beam), L the longest
output with its end-of-sentence token.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from fairseq_aiayn.decoding.candidates import Restriction, Symbols, best_tokens
from fairseq_aiayn.decoding.hypotheses import Finished, History, Hypothesis, Step
from fairseq_aiayn.decoding.length_penalty import length_penalty

WORTH_DROPPING = 1 / 8  # of the sentences: the others must be copied


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


class Continuations(Protocol):
    """A model, or an ensemble, with its decoding state: one row a sentence before the first token,
    then k."""

    def log_probabilities(self, tokens: Tensor) -> Iterable[Tensor]:
        """Append the newest tokens [R, 1]; give log P(next token) of all rows in order, some
        [rows, V] at a time, float32, for the caller to overwrite."""

    def follow(self, parents: Tensor) -> None:
        """Let beam j of sentence b continue what its beam parents[b, j] has seen; [B, k]."""

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
    displace the `nbest`-th finished one. Returns, a sentence, up to `nbest` hypotheses, best first.
    """
    check_lengths(max_lengths, symbols, options, prefix)
    B, device, longest = max_lengths.numel(), max_lengths.device, int(max_lengths.max())
    limits = Limits(max_lengths, set(max_lengths.tolist()), symbols, options.min_length, prefix)
    results = Finished.none(B, options.nbest, device)
    history = History(longest + 1, B, options.beam, device)
    sentences, finished = torch.arange(B, device=device), results
    alive = torch.zeros(B, 1, device=device)  # log P of the empty hypothesis, before any copy
    broken = torch.zeros(B, dtype=torch.bool, device=device)
    newest = torch.full((B, 1), symbols.end, device=device)
    for step in range(longest + 1):
        restriction = limits.at(step, sentences)
        log_p = continuations.log_probabilities(newest)
        best = best_tokens(log_p, restriction, options.beam + 1, alive.size(1))
        broken[sentences] |= has_nan(best[0], alive)
        alive, written, ended = advance(alive, *best, step, symbols.end, options)
        history.write(step, sentences, written)
        finished = finished.merged(ended)
        done = is_done(alive, finished, max_lengths[sentences], options)
        waiting = int(done.sum())  # all that a step waits for, if it drops none
        if waiting == done.numel():
            break
        continuations.follow(written.parent)
        if waiting >= WORTH_DROPPING * done.numel():
            kept = (~done).nonzero().squeeze(1)
            continuations.keep_sentences(kept)
            results.write(sentences, finished)
            sentences, alive, finished = sentences[kept], alive[kept], finished.sentences(kept)
            newest = written.token[kept].view(-1, 1)
        else:
            newest = written.token.view(-1, 1)
    results.write(sentences, finished)
    found = history.read(results, symbols.end)
    require_outputs(broken, found)
    return found


def has_nan(token_log_p: Tensor, alive: Tensor) -> Tensor:
    """[B], True where an open hypothesis, log P alive [B, r], has a next token whose probability
    is not a number. Such a token is always among the best, token_log_p [B·r, m]: NaN sorts first.
    """
    nan = token_log_p.isnan().any(dim=1).view_as(alive)
    return (nan & alive.gt(-math.inf)).any(dim=1)


def require_outputs(broken: Tensor, found: list[list[Hypothesis]]) -> None:
    """Raise ValueError for a batch in which a probability was not a number, broken [B], or a
    sentence has no output."""
    if broken.any():
        place = int(broken.nonzero()[0])
        raise ValueError(
            f"the model gives a probability that is not a number, in sentence {place + 1} of"
            f" {len(found)} of a batch: are its weights NaN?"
        )
    if not all(found):
        place = next(number for number, hypotheses in enumerate(found) if not hypotheses)
        raise ValueError(
            f"the model gives no output a probability above 0, in sentence {place + 1} of"
            f" {len(found)} of a batch"
        )


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


@dataclass(frozen=True)
class Limits:
    """What each output [B] may be: its prefix, if any, its shortest and its longest length.

    `ends` holds the values of max_lengths, so that no step has to ask the device for them.
    """

    max_lengths: Tensor
    ends: set[int]
    symbols: Symbols
    min_length: int
    prefix: Tensor | None

    def at(self, step: int, sentences: Tensor) -> Restriction:
        """The restriction of a step in these sentences [B']."""
        forced = None
        if self.prefix is not None and step < self.prefix.size(1):
            forced = self.prefix[sentences, step]
        if step in self.ends:
            if forced is None:
                forced = torch.full_like(sentences, self.symbols.padding)
            forced = forced.masked_fill(self.max_lengths[sentences].eq(step), self.symbols.end)
        return Restriction(self.symbols, step < self.min_length, forced)


def advance(
    alive: Tensor,
    token_log_p: Tensor,
    token: Tensor,
    step: int,
    end: int,
    options: SearchOptions,
) -> tuple[Tensor, Step, Finished]:
    """Extend the open hypotheses, log P alive [B, r], by k + 1 best tokens of each [B·r, k + 1].

    Returns log P of the k best that go on [B, k], what they wrote, and the up to k that end here
    (score −∞ elsewhere). Of one hypothesis only one continuation ends, so that k + 1 of each, and
    2k of all, hold k that go on.
    """
    (B, r), k = alive.shape, options.beam
    total = (alive.unsqueeze(2) + token_log_p.view(B, r, k + 1)).view(B, -1)
    value, place = total.topk(min(2 * k, r * (k + 1)), dim=1)
    written = Step(
        token.view(B, -1).gather(1, place),
        token_log_p.view(B, -1).gather(1, place),
        place.div(k + 1, rounding_mode="floor"),
    )
    ends = written.token.eq(end)
    score = value[:, :k].masked_fill(~ends[:, :k], -math.inf)
    ended = Finished(
        score / length_penalty(step + 1, options.alpha),
        torch.full_like(place[:, :k], step),
        written.parent[:, :k],
        written.token_log_p[:, :k],
    )
    alive, going_on = value.masked_fill(ends, -math.inf).topk(k, dim=1)
    return alive, Step(*(v.gather(1, going_on) for v in vars(written).values())), ended


def is_done(
    alive: Tensor, finished: Finished, max_lengths: Tensor, options: SearchOptions
) -> Tensor:
    """[B], True where no open hypothesis, the best one first, can still enter the finished ones.

    log P only falls and, for α ≥ 0, lp only rises with length, so log P(so far) / lp(longest)
    bounds every score to come.
    """
    bound = alive[:, 0] / length_penalty(max_lengths + 1, options.alpha)
    return finished.score[:, -1] >= bound

"""Section 6.1: beam search with the length penalty of Wu et al. (2016), ended as early as possible.

Shape letters as in fairseq_aiayn.nn, and: k hypotheses per sentence (the beam), L the longest
output with its end-of-sentence token.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from fairseq_aiayn.decoding.candidates import AllowedTokens, Symbols, best_tokens
from fairseq_aiayn.decoding.hypotheses import Finished, History, Hypothesis, Step
from fairseq_aiayn.decoding.length_penalty import length_penalty

LARGEST_ALPHA = 50  # with it, the penalty of 100,000 tokens is 1e211, still a float
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
        if not 0 <= self.alpha <= LARGEST_ALPHA:
            raise ValueError(
                f"the length penalty α must be a number from 0 to {LARGEST_ALPHA}, got {self.alpha}"
            )
        if not 1 <= self.nbest <= self.beam:
            raise ValueError(
                f"nbest must be between 1 and the beam size {self.beam}, got {self.nbest}"
            )
        if self.min_length < 0:
            raise ValueError(f"the minimum length must not be negative, got {self.min_length}")


class Continuations(Protocol):
    """A model, or an ensemble, with its decoding state: before the first token one row per
    sentence, then k."""

    def log_probabilities(self, tokens: Tensor) -> Iterable[Tensor]:
        """Append the newest tokens [R, 1]; give log P(next token) of all rows in order, some
        [rows, V] at a time, float32, for the caller to overwrite."""

    def follow(self, parents: Tensor) -> None:
        """Let beam j of sentence b continue what its beam parents[b, j] has seen; [B, k]."""

    def keep_sentences(self, sentences: Tensor) -> None:
        """Go on with these sentences [B'] only, on both sides."""


@torch.no_grad()
def beam_search(
    continuations: Continuations,
    max_lengths: Tensor,
    symbols: Symbols,
    options: SearchOptions,
    prefix: Tensor | None = None,
) -> list[list[Hypothesis]]:
    """Return up to `nbest` outputs per sentence of a batch, best first.

    max_lengths [B]: tokens that each output may have before its end-of-sentence token;
    prefix [B, p]: tokens that each output must begin with, padded on the right. A hypothesis is
    finished when its end-of-sentence token is among the k best continuations. A sentence is done
    when the best open hypothesis, were it to gain no more cost until the longest output, could not
    displace the `nbest`-th finished one.
    """
    check_lengths(max_lengths, symbols, options, prefix)
    B, device, longest = max_lengths.numel(), max_lengths.device, int(max_lengths.max())
    limits = Limits(max_lengths, set(max_lengths.tolist()), symbols, options.min_length, prefix)
    results = Finished.none(B, options.nbest, device)
    history = History(longest + 1, B, options.beam, device)
    broken = torch.zeros(B, dtype=torch.bool, device=device)
    search = OpenSentences.at_start(results, symbols.end)
    for step in range(longest + 1):
        log_p = continuations.log_probabilities(search.newest)
        allowed = limits.at(step, search.sentences)
        best = best_tokens(log_p, allowed, options.beam + 1, search.alive.size(1))
        broken[search.sentences] |= has_nan(best[0], search.alive)
        written = search.advance(*best, step, symbols.end, options)
        history.write(step, search.sentences, written)
        done = search.done(max_lengths, options)
        waiting = int(done.sum())  # the only value that a step asks the device for
        if waiting == done.numel():
            break
        continuations.follow(written.parent)
        if waiting >= WORTH_DROPPING * done.numel():
            results.write(search.sentences, search.finished)
            kept = (~done).nonzero().squeeze(1)
            continuations.keep_sentences(kept)
            search = search.only(kept)
    results.write(search.sentences, search.finished)
    found = history.read(results, symbols.end)
    require_outputs(broken, found)
    return found


@dataclass
class OpenSentences:
    """The sentences that are still searched.

    sentences [B']: their places in the batch; alive [B', r]: log P of each open hypothesis, best
    first, where r is 1 before the first token, then k; newest [B'·r, 1]: the last token of each;
    finished [B', n]: the best finished ones.
    """

    sentences: Tensor
    alive: Tensor
    newest: Tensor
    finished: Finished

    @staticmethod
    def at_start(finished: Finished, end: int) -> OpenSentences:
        """All sentences of a batch, each with the empty hypothesis, whose log P is 0."""
        B, device = finished.score.size(0), finished.score.device
        newest = torch.full((B, 1), end, device=device)
        return OpenSentences(
            torch.arange(B, device=device), torch.zeros(B, 1, device=device), newest, finished
        )

    def advance(
        self, token_log_p: Tensor, token: Tensor, step: int, end: int, options: SearchOptions
    ) -> Step:
        """Extend every open hypothesis by its k + 1 best tokens, token_log_p and token
        [B'·r, k + 1]; keep the k best that go on, and of those that end the best.

        Returns what the k that go on wrote. One hypothesis has at most one continuation that ends,
        so k of its k + 1 best tokens go on, and so do k of the 2k best of all.
        """
        (B, r), k = self.alive.shape, options.beam
        total = (self.alive.unsqueeze(2) + token_log_p.view(B, r, k + 1)).view(B, -1)
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
        self.finished = self.finished.merged(ended)
        self.alive, going_on = value.masked_fill(ends, -math.inf).topk(k, dim=1)
        written = Step(*(v.gather(1, going_on) for v in vars(written).values()))
        self.newest = written.token.view(-1, 1)
        return written

    def done(self, max_lengths: Tensor, options: SearchOptions) -> Tensor:
        """[B'], True where no open hypothesis, the best one first, can still enter the finished
        ones; max_lengths [B].

        log P only falls and, for α ≥ 0, lp only rises with length, so log P(so far) / lp(longest)
        bounds every score to come.
        """
        longest = max_lengths[self.sentences] + 1
        bound = self.alive[:, 0] / length_penalty(longest, options.alpha)
        return self.finished.score[:, -1] >= bound

    def only(self, kept: Tensor) -> OpenSentences:
        """Those of these rows [B''], after the first step."""
        return OpenSentences(
            self.sentences[kept],
            self.alive[kept],
            self.newest.view(self.alive.shape)[kept].view(-1, 1),
            self.finished.only(kept),
        )


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

    def at(self, step: int, sentences: Tensor) -> AllowedTokens:
        """The tokens that a step allows in these sentences [B']."""
        forced = None
        if self.prefix is not None and step < self.prefix.size(1):
            forced = self.prefix[sentences, step]
        if step in self.ends:
            if forced is None:
                forced = torch.full_like(sentences, self.symbols.padding)
            forced = forced.masked_fill(self.max_lengths[sentences].eq(step), self.symbols.end)
        return AllowedTokens(self.symbols, step < self.min_length, forced)

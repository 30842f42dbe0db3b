"""Section 6.1: beam search with the length penalty of Wu et al. (2016), which stops as early as
possible.

Shape letters as in fairseq_aiayn.nn; also k, the number of hypotheses per sentence (the beam); r
active hypotheses per sentence (1 before the first token, k afterwards); R = B·r rows; m candidates
per row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn.functional import pad

from fairseq_aiayn.decoding.hypotheses import Finished, History, Hypothesis, Step
from fairseq_aiayn.decoding.search import Search, Symbols, length_penalty
from fairseq_aiayn.nn.cpu_kernels import rows_of_logits
from fairseq_aiayn.nn.transformer import Transformer, needed_mask

__all__ = ["Continuations", "EnsembleContinuations", "beam_search"]

BLOCK = 64  # tokens per block of `top_tokens`, whose first pass computes only block maxima
# Logits per part: as many as fit into the cache of a CPU, or enough rows to keep a GPU busy
LOGITS = {"cpu": 2**21, "cuda": 2**27}
WORTH_DROPPING = 1 / 8  # share of finished sentences that is worth copying all the others


class Continuations(Protocol):
    """A model or an ensemble with its decoding state; it has one row per sentence before the first
    token, and k rows per sentence afterwards."""

    def log_probabilities(self, tokens: Tensor) -> Iterable[Tensor]:
        """Append the newest tokens [R, 1] and yield log P(next token) of all rows, in order.

        Each part covers some of the rows: [rows, V], float32. The caller may overwrite it.
        """

    def follow(self, parents: Tensor) -> None:
        """Make beam j of sentence b a continuation of its beam parents[b, j]; parents [B, k]."""

    def keep_sentences(self, sentences: Tensor) -> None:
        """Keep only these sentences [B'], on the source and the target side."""


@torch.no_grad()
def beam_search(
    continuations: Continuations,
    max_lengths: Tensor,
    symbols: Symbols,
    options: Search,
    prefix: Tensor | None = None,
) -> list[list[Hypothesis]]:
    """Return up to `nbest` outputs per sentence of a batch, best first.

    max_lengths [B]: the number of tokens that each output may have before its end-of-sentence
    token; prefix [B, p]: the tokens that each output must begin with, padded on the right. A
    hypothesis is finished when its end-of-sentence token is among the k best continuations. A
    sentence is done when its best active hypothesis could not displace the `nbest`-th finished one,
    even if it reached the maximum length without any loss of probability.

    Raises ValueError for a probability that is not a number, for a sentence without a possible
    output, and if an output would have to be longer than it may be.
    """
    check_lengths(max_lengths, symbols, options, prefix)
    B, device, longest = max_lengths.numel(), max_lengths.device, int(max_lengths.max())
    limits = Limits(max_lengths, set(max_lengths.tolist()), symbols, options.min_length, prefix)
    results = Finished.none(B, options.nbest, device)
    history = History(longest + 1, B, options.beam, device)
    broken = torch.zeros(B, dtype=torch.bool, device=device)
    active = ActiveSentences.at_start(results, symbols.end)
    for step in range(longest + 1):
        log_p = continuations.log_probabilities(active.newest)
        allowed = limits.at(step, active.sentences)
        best = best_tokens(log_p, allowed, options.beam + 1, active.log_p.size(1))
        broken[active.sentences] |= has_nan(best[0], active.log_p)
        new = active.advance(*best, step, symbols.end, options)
        history.write(step, active.sentences, new)
        done = active.done(max_lengths, options)
        waiting = int(done.sum())  # the only value that a step reads from the device
        if waiting == done.numel():
            break
        continuations.follow(new.parent)
        if waiting >= WORTH_DROPPING * done.numel():
            results.write(active.sentences, active.finished)
            kept = (~done).nonzero().squeeze(1)
            continuations.keep_sentences(kept)
            active = active.only(kept)
    results.write(active.sentences, active.finished)
    outputs = history.read(results, symbols.end)
    require_outputs(broken, outputs)
    return outputs


@dataclass
class ActiveSentences:
    """The sentences whose search is not over.

    sentences [B']: their numbers in the batch; log_p [B', r]: log P of each active hypothesis, best
    first, where r is 1 before the first token and k afterwards; newest [B'·r, 1]: the last token of
    each active hypothesis; finished [B', n]: the best finished hypotheses.
    """

    sentences: Tensor
    log_p: Tensor
    newest: Tensor
    finished: Finished

    @staticmethod
    def at_start(finished: Finished, end: int) -> ActiveSentences:
        """Return all sentences of a batch, each with the empty hypothesis, whose log P is 0."""
        B, device = finished.score.size(0), finished.score.device
        newest = torch.full((B, 1), end, device=device)
        return ActiveSentences(
            torch.arange(B, device=device), torch.zeros(B, 1, device=device), newest, finished
        )

    def advance(
        self, token_log_p: Tensor, token: Tensor, step: int, end: int, options: Search
    ) -> Step:
        """Extend every active hypothesis by its k + 1 best tokens; keep the k best continuations
        that stay active, and the best of those that end.

        token_log_p and token [B'·r, k + 1]. Returns the step of the k that stay active.
        At most one continuation of a hypothesis ends. So at least k of the k + 1 best tokens of a
        hypothesis stay active, and so do at least k of the 2k best continuations of a sentence.
        """
        (B, r), k = self.log_p.shape, options.beam
        total = self.log_p.unsqueeze(2) + token_log_p.view(B, r, k + 1)
        # What continues no active hypothesis may be NaN, which topk would take for the largest
        total = total.masked_fill(self.log_p.isneginf().unsqueeze(2), -math.inf).view(B, -1)
        value, index = total.topk(min(2 * k, r * (k + 1)), dim=1)
        new = Step(
            token.view(B, -1).gather(1, index),
            token_log_p.view(B, -1).gather(1, index),
            index.div(k + 1, rounding_mode="floor"),
        )
        ends = new.token.eq(end)
        score = value[:, :k].masked_fill(~ends[:, :k], -math.inf)
        ended = Finished(
            score / length_penalty(step + 1, options.alpha),
            torch.full_like(index[:, :k], step),
            new.parent[:, :k],
            new.token_log_p[:, :k],
        )
        self.finished = self.finished.merged(ended)
        self.log_p, going_on = value.masked_fill(ends, -math.inf).topk(k, dim=1)
        new = Step(*(v.gather(1, going_on) for v in vars(new).values()))
        self.newest = new.token.view(-1, 1)
        return new

    def done(self, max_lengths: Tensor, options: Search) -> Tensor:
        """Return [B'], True if no active hypothesis can still enter the finished ones; max_lengths
        [B].

        With length, log P only falls and, for α ≥ 0, lp only rises. So log P(so far) / lp(longest)
        of the best active hypothesis is an upper bound of every later score.
        """
        longest = max_lengths[self.sentences] + 1
        bound = self.log_p[:, 0] / length_penalty(longest, options.alpha)
        return self.finished.score[:, -1] >= bound

    def only(self, kept: Tensor) -> ActiveSentences:
        """Return only the sentences in these rows [B'']; for use after the first step."""
        return ActiveSentences(
            self.sentences[kept],
            self.log_p[kept],
            self.newest.view(self.log_p.shape)[kept].view(-1, 1),
            self.finished.only(kept),
        )


def has_nan(token_log_p: Tensor, log_p: Tensor) -> Tensor:
    """Return [B], True if an active hypothesis has a next token whose probability is not a number.

    log_p [B, r]: log P of the active hypotheses; token_log_p [B·r, m]: log P of their best next
    tokens. A token with NaN is always among the best, because NaN sorts first.
    """
    nan = token_log_p.isnan().any(dim=1).view_as(log_p)
    return (nan & log_p.gt(-math.inf)).any(dim=1)


def require_outputs(broken: Tensor, outputs: list[list[Hypothesis]]) -> None:
    """Raise ValueError if a sentence of a batch has a probability that is not a number, broken [B],
    or no output."""
    for number, (is_broken, hypotheses) in enumerate(
        zip(broken.tolist(), outputs, strict=True), start=1
    ):
        sentence = f"in sentence {number} of {len(outputs)} of a batch"
        if is_broken:
            raise ValueError(
                f"the model gives a probability that is not a number, {sentence}: are its weights"
                " NaN?"
            )
        if not hypotheses:
            raise ValueError(f"the model gives no output a probability above 0, {sentence}")


def check_lengths(
    max_lengths: Tensor, symbols: Symbols, options: Search, prefix: Tensor | None
) -> None:
    """Raise ValueError if an output would have to be longer than its maximum length."""
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
    """The limits of each output: its prefix [B, p], if any, and its minimum and maximum length [B].

    `ends` holds the values of max_lengths, so that no step has to read them from the device.
    """

    max_lengths: Tensor
    ends: set[int]
    symbols: Symbols
    min_length: int
    prefix: Tensor | None

    def at(self, step: int, sentences: Tensor) -> AllowedTokens:
        """Return the tokens that a step allows in these sentences [B']."""
        forced = None
        if self.prefix is not None and step < self.prefix.size(1):
            forced = self.prefix[sentences, step]
        if step in self.ends:
            if forced is None:
                forced = torch.full_like(sentences, self.symbols.padding)
            forced = forced.masked_fill(self.max_lengths[sentences].eq(step), self.symbols.end)
        return AllowedTokens(self.symbols, step < self.min_length, forced)


@dataclass(frozen=True)
class AllowedTokens:
    """The tokens that a step may write: all but padding and, if `end_forbidden`, the end token.

    forced [B] is the only token that a sentence may write: a token of its prefix, or the end token
    at the maximum length. A sentence whose entry is padding is free; None means that all are.
    """

    symbols: Symbols
    end_forbidden: bool
    forced: Tensor | None

    def mask(self, log_p: Tensor, rows: slice, r: int) -> None:
        """Set log_p [rows, V] of these rows to −∞, in place, for tokens that are not allowed.

        A forced end token is allowed even if `end_forbidden`. So log P of the forced tokens is read
        before the masking and restored at the end.
        """
        forced = None
        if self.forced is not None:
            forced = self.forced.repeat_interleave(r)[rows].unsqueeze(1)  # [rows, 1]
            forced_log_p = log_p.gather(1, forced)
        log_p[:, self.symbols.padding] = -math.inf
        if self.end_forbidden:
            log_p[:, self.symbols.end] = -math.inf
        if forced is not None:
            is_forced = forced.ne(self.symbols.padding)
            forced_log_p.masked_fill_(~is_forced, -math.inf)  # padding itself stays forbidden
            log_p.masked_fill_(is_forced, -math.inf).scatter_(1, forced, forced_log_p)


def best_tokens(
    parts: Iterable[Tensor], allowed: AllowedTokens, m: int, r: int
) -> tuple[Tensor, Tensor]:
    """Return the m best allowed tokens of every row: log P [R, m], token [R, m].

    parts: log P(next token) of all rows in order, in parts of some rows [rows, V], which are
    overwritten.
    """
    values, tokens, start = [], [], 0
    for log_p in parts:
        rows = slice(start, start + log_p.size(0))
        allowed.mask(log_p, rows, r)
        value, token = top_tokens(log_p, m)
        values.append(value)
        tokens.append(token)
        start = rows.stop
    return torch.cat(values), torch.cat(tokens)


def top_tokens(log_p: Tensor, m: int) -> tuple[Tensor, Tensor]:
    """Return log_p.topk(m): values and tokens, both [rows, m], of log_p [rows, V].

    If the vocabulary has fewer than m tokens, the missing columns have −∞ and token 0.

    Selecting from a whole vocabulary is slow, but computing maxima is fast. So the vocabulary is
    cut into blocks, and the m blocks with the largest maxima hold the m largest values. For
    example, with blocks of 3 and m = 2, the row −1 −9 −8 | −4 −2 −3 | −7 −6 −5 | −9 is searched
    only in the first two blocks, whose maxima are −1 and −2, and in the rest, which fills no block.
    """
    V = log_p.size(1)
    if V < m:
        value, token = log_p.topk(V)
        return pad(value, (0, m - V), value=-math.inf), pad(token, (0, m - V))
    if V < 4 * m * BLOCK:
        return log_p.topk(m)
    blocks = V // BLOCK
    whole = log_p[:, : blocks * BLOCK].unflatten(1, (blocks, BLOCK))
    chosen = whole.amax(dim=2).topk(m, sorted=False).indices
    offsets = torch.arange(BLOCK, device=log_p.device)
    columns = (chosen.unsqueeze(2) * BLOCK + offsets).flatten(1)
    rest = torch.arange(blocks * BLOCK, V, device=log_p.device).expand(log_p.size(0), -1)
    columns = torch.cat([columns, rest], dim=1)
    value, index = log_p.gather(1, columns).topk(m)
    return value, columns.gather(1, index)


class EnsembleContinuations:
    """Models and their decoding states; P is the mean of their probabilities, as in fairseq."""

    def __init__(self, models: Sequence[Transformer], source: Tensor):
        """source [B, S], padded on either side; all models read the same tokens."""
        self.decoders = [model.decoder for model in models]
        self.states = []
        for model in models:
            mask = needed_mask(source, model.padding)
            self.states.append(model.decoder.start(model.encode(source, mask), mask))

    def log_probabilities(self, tokens: Tensor) -> Iterator[Tensor]:
        """tokens [R, 1] → log P(next token) of all rows in order, in parts [rows, V]; float32,
        whatever the type of the models."""
        features = [
            decoder.step(tokens, state)[:, 0]
            for decoder, state in zip(self.decoders, self.states, strict=True)
        ]
        rows = rows_of_logits(LOGITS, self.decoders[0].projection.weight)
        for part in zip(*(x.split(rows) for x in features), strict=True):
            yield self._mean(part)

    def _mean(self, features: Sequence[Tensor]) -> Tensor:
        """Return log P [rows, V] from the features [rows, d_model] of every model."""
        log_p = [
            decoder.projection.project(x).log_softmax(dim=-1, dtype=torch.float32)
            for decoder, x in zip(self.decoders, features, strict=True)
        ]
        if len(log_p) == 1:
            return log_p[0]
        return torch.stack(log_p).logsumexp(dim=0) - math.log(len(log_p))

    def follow(self, parents: Tensor) -> None:
        """In every model, make beam j of sentence b a continuation of its beam parents[b, j];
        parents [B, k]."""
        for state in self.states:
            state.follow(parents)

    def keep_sentences(self, sentences: Tensor) -> None:
        """Keep only these sentences [B']."""
        for state in self.states:
            state.keep_sources(sentences)
            k = state.ancestors.size(2)
            beams = torch.arange(k, device=sentences.device)
            state.reorder_beams((sentences[:, None] * k + beams).flatten())


# Returns log P of every next token, given the tokens so far
Model = Callable[[tuple[int, ...]], Sequence[float]]
Scored = tuple[float, tuple[int, ...]]


def plain_beam_search(
    model: Model, end: int, beam: int, alpha: float, max_length: int
) -> list[Scored]:
    """Return the outputs of a beam search without early stopping, best first: the reference for
    `beam_search`, one sentence at a time.

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

"""The length penalty of Wu et al. (2016), Equation 14, which section 6.1 cites."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import torch
from torch import Tensor
from torch.nn.functional import pad

from fairseq_aiayn.decoding.hypotheses import Finished, History, Hypothesis, Step
from fairseq_aiayn.nn.transformer import Transformer
from fairseq_aiayn.training import rows_of_logits

Number = TypeVar("Number", int, Tensor)


def length_penalty(length: Number, alpha: float) -> float | Number:
    """Return lp(Y) = ((5 + |Y|)/6)^α; the score of a finished translation is log P(Y|X) / lp(Y).

    |Y| = `length` is a number or a tensor of numbers. It counts the end-of-sentence token, as in
    the paper's own code.
    """
    return ((5.0 + length) / 6.0) ** alpha


# The longest output of a search, by the length of its source (section 6.1).


# Limits of a and b. Without them, a model that never ends its output could take far too many steps.
LONGEST_OUTPUT = (100, 100_000)


@dataclass(frozen=True)
class MaximumLength:
    """The limit ⌊a·n + b⌋ of the output length for a source of n tokens; neither length counts the
    end-of-sentence token. Raises ValueError for a or b out of range."""

    a: float
    b: int

    def __post_init__(self) -> None:
        largest_a, largest_b = LONGEST_OUTPUT
        if not 0 <= self.a <= largest_a:
            raise ValueError(f"max_len_a must be a number from 0 to {largest_a}, got {self.a}")
        if self.b > largest_b:
            raise ValueError(f"max_len_b must be at most {largest_b:,}, got {self.b:,}")

    def of(self, source: Tensor, symbols: Symbols) -> Tensor:
        """Return the limit of each sentence [B], which depends on its own length only; source
        [B, S] has these `symbols` as end and padding."""
        real = source.ne(symbols.padding) & source.ne(symbols.end)
        # Not on the device: in float32, 1.05 · 60 is less than 63.
        return source.new_tensor([int(self.a * n + self.b) for n in real.sum(dim=1).tolist()])


# Select the best tokens that may come next from log P of the whole vocabulary.
#
# Shape letters as in beam_search; also r open hypotheses per sentence (1 before the first token, k
# afterwards), R = B·r rows and m candidates per row.


BLOCK = 64  # tokens per block; the first pass computes only the maximum of each block


@dataclass(frozen=True)
class Symbols:
    """The tokens with a meaning for the search; as in fairseq, `end` also precedes the first
    token."""

    end: int
    padding: int


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

    If the vocabulary has fewer than m tokens, the missing places have −∞ and token 0.

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
    places = (chosen.unsqueeze(2) * BLOCK + offsets).flatten(1)
    rest = torch.arange(blocks * BLOCK, V, device=log_p.device).expand(log_p.size(0), -1)
    places = torch.cat([places, rest], dim=1)
    value, place = log_p.gather(1, places).topk(m)
    return value, places.gather(1, place)


# Decoding with one model or with several, whose probabilities are averaged.


# Logits per part: as many as fit into the cache of a CPU, or enough rows to keep a GPU busy.
LOGITS = {"cpu": 2**21, "cuda": 2**27}


class EnsembleContinuations:
    """Models and their decoding states; P is the mean of their probabilities, as in fairseq."""

    def __init__(self, models: Sequence[Transformer], source: Tensor):
        """source [B, S], padded on either side; all models read the same tokens."""
        self.decoders = [model.decoder for model in models]
        self.states = [model.decoder.start(*model.encode(source)) for model in models]

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


# Section 6.1: beam search with the length penalty of Wu et al. (2016), which stops as early as
# possible.
#
# Shape letters as in fairseq_aiayn.nn; also k, the number of hypotheses per sentence (the beam).


LARGEST_ALPHA = 8  # the penalty of 100,000 tokens is then 6e33, which float32 can hold
WORTH_DROPPING = 1 / 8  # share of finished sentences that is worth copying all the others


@dataclass(frozen=True)
class SearchOptions:
    """The user's choices: beam size k, length penalty α, minimum output length, number of outputs.

    The search of a sentence ends when no open hypothesis can still enter its `nbest` best outputs.
    Raises ValueError for a value that is out of range.
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
    options: SearchOptions,
    prefix: Tensor | None = None,
) -> list[list[Hypothesis]]:
    """Return up to `nbest` outputs per sentence of a batch, best first.

    max_lengths [B]: the number of tokens that each output may have before its end-of-sentence
    token; prefix [B, p]: the tokens that each output must begin with, padded on the right. A
    hypothesis is finished when its end-of-sentence token is among the k best continuations. A
    sentence is done when its best open hypothesis could not displace the `nbest`-th finished one,
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
    search = OpenSentences.at_start(results, symbols.end)
    for step in range(longest + 1):
        log_p = continuations.log_probabilities(search.newest)
        allowed = limits.at(step, search.sentences)
        best = best_tokens(log_p, allowed, options.beam + 1, search.alive.size(1))
        broken[search.sentences] |= has_nan(best[0], search.alive)
        written = search.advance(*best, step, symbols.end, options)
        history.write(step, search.sentences, written)
        done = search.done(max_lengths, options)
        waiting = int(done.sum())  # the only value that a step reads from the device
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
    """The sentences whose search is not over.

    sentences [B']: their places in the batch; alive [B', r]: log P of each open hypothesis, best
    first, where r is 1 before the first token and k afterwards; newest [B'·r, 1]: the last token of
    each open hypothesis; finished [B', n]: the best finished hypotheses.
    """

    sentences: Tensor
    alive: Tensor
    newest: Tensor
    finished: Finished

    @staticmethod
    def at_start(finished: Finished, end: int) -> OpenSentences:
        """Return all sentences of a batch, each with the empty hypothesis, whose log P is 0."""
        B, device = finished.score.size(0), finished.score.device
        newest = torch.full((B, 1), end, device=device)
        return OpenSentences(
            torch.arange(B, device=device), torch.zeros(B, 1, device=device), newest, finished
        )

    def advance(
        self, token_log_p: Tensor, token: Tensor, step: int, end: int, options: SearchOptions
    ) -> Step:
        """Extend every open hypothesis by its k + 1 best tokens; keep the k best continuations that
        stay open, and the best of those that end.

        token_log_p and token [B'·r, k + 1]. Returns the step that the k open continuations wrote.
        At most one continuation of a hypothesis ends. So at least k of the k + 1 best tokens of a
        hypothesis stay open, and so do at least k of the 2k best continuations of a sentence.
        """
        (B, r), k = self.alive.shape, options.beam
        total = self.alive.unsqueeze(2) + token_log_p.view(B, r, k + 1)
        # What continues no open hypothesis may be NaN, which topk would take for the largest.
        total = total.masked_fill(self.alive.isneginf().unsqueeze(2), -math.inf).view(B, -1)
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
        """Return [B'], True if no open hypothesis can still enter the finished ones; max_lengths
        [B].

        With length, log P only falls and, for α ≥ 0, lp only rises. So log P(so far) / lp(longest)
        of the best open hypothesis is an upper bound of every later score.
        """
        longest = max_lengths[self.sentences] + 1
        bound = self.alive[:, 0] / length_penalty(longest, options.alpha)
        return self.finished.score[:, -1] >= bound

    def only(self, kept: Tensor) -> OpenSentences:
        """Return only the sentences in these rows [B'']; for use after the first step."""
        return OpenSentences(
            self.sentences[kept],
            self.alive[kept],
            self.newest.view(self.alive.shape)[kept].view(-1, 1),
            self.finished.only(kept),
        )


def has_nan(token_log_p: Tensor, alive: Tensor) -> Tensor:
    """Return [B], True if an open hypothesis has a next token whose probability is not a number.

    alive [B, r]: log P of the open hypotheses; token_log_p [B·r, m]: log P of their best next
    tokens. A token with NaN is always among the best, because NaN sorts first.
    """
    nan = token_log_p.isnan().any(dim=1).view_as(alive)
    return (nan & alive.gt(-math.inf)).any(dim=1)


def require_outputs(broken: Tensor, found: list[list[Hypothesis]]) -> None:
    """Raise ValueError if a sentence of a batch has a probability that is not a number, broken [B],
    or no output."""
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


# Slow reference implementations of the beam search, for one sentence at a time.


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

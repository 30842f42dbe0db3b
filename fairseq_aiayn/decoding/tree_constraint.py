"""Section 6.3: a beam search that writes only trees over exactly as many words as the source has.

A target is a forest under a root that is not written. It has opening brackets and closing brackets
with labels, and a symbol in place of each word. A continuation is allowed if its result can still
become a forest over exactly n words within the sentence's maximum length; at least one continuation
always is. Probabilities are those of the model: log P of a forbidden token becomes −∞, and the
other probabilities are not renormalized.

Shape letters: R rows (the beams of a sentence next to one another), D, the largest number of open
brackets, and C kinds of tokens.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fairseq_aiayn.decoding.beam_search import Continuations

__all__ = ["ConstrainedContinuations", "TreeSymbols", "classify_tokens"]

# Kinds of tokens, which a step permits or forbids. The kind of a closing bracket is CLOSE + label.
NEVER, WORD, OPEN, END, CLOSE = range(5)


@dataclass(frozen=True)
class TreeSymbols:
    """The role of each target token; a token without a role is never written.

    opened and closed [V] are the number of the label that a token opens or closes, −1 for none;
    is_word [V] is a bool; `end` is the end token. Raises ValueError if no tree can be written,
    because there is no word symbol or no label with both brackets.
    """

    opened: Tensor
    closed: Tensor
    is_word: Tensor
    end: int

    def __post_init__(self) -> None:
        if not self.is_word.any():
            raise ValueError("no target token stands for a word")
        if not self.closable().any():
            raise ValueError("no label has both an opening and a closing bracket")

    @property
    def labels(self) -> int:
        """Number of labels."""
        return int(torch.maximum(self.opened, self.closed).max()) + 1

    def closable(self) -> Tensor:
        """Return [V], True for opening brackets whose label can be closed."""
        return self.opened.ge(0) & torch.isin(self.opened, self.closed)

    def kinds(self) -> Tensor:
        """Return the kind of each token, [V]."""
        kinds = torch.full_like(self.opened, NEVER)
        kinds[self.is_word] = WORD
        kinds[self.closable()] = OPEN
        kinds[self.end] = END
        return torch.where(self.closed.ge(0), CLOSE + self.closed, kinds)

    def to(self, device: torch.device) -> TreeSymbols:
        """Return the same symbols on another device."""
        return TreeSymbols(
            self.opened.to(device), self.closed.to(device), self.is_word.to(device), self.end
        )


def classify_tokens(tokens: Sequence[tuple[str, str]], end: int) -> TreeSymbols:
    """Return the symbols of a dictionary whose tokens are given as pairs of a bracket and a name.

    ("(", "NP") opens NP, (")", "NP") closes it, and ("", "NN") stands for a word. A token without a
    name is never written.
    """
    numbers: dict[str, int] = {}
    opened, closed, is_word = [-1] * len(tokens), [-1] * len(tokens), [False] * len(tokens)
    for place, (bracket, name) in enumerate(tokens):
        if not name:
            continue
        if not bracket:
            is_word[place] = True
        else:
            side = opened if bracket == "(" else closed
            side[place] = numbers.setdefault(name, len(numbers))
    return TreeSymbols(torch.tensor(opened), torch.tensor(closed), torch.tensor(is_word), end)


@dataclass
class TreeState:
    """For every row, the words and tokens that are left, the open labels, and the permitted kinds.

    words_left, tokens_left, depth [R]; labels [R, D + 1], the open ones, outermost first, followed
    by remains of closed ones; permitted [R, C]. A row is permitted nothing more once it has written
    its end token or a token that was not permitted, as in a beam without a hypothesis.
    """

    words_left: Tensor
    tokens_left: Tensor
    depth: Tensor
    labels: Tensor
    permitted: Tensor

    def reordered(self, rows: Tensor) -> TreeState:
        """Return a state whose row i is row rows[i] of this one."""
        return TreeState(*(value.index_select(0, rows) for value in vars(self).values()))

    def append(self, kind: Tensor, label: Tensor) -> None:
        """Append one token per row, of this kind [R]; label [R] matters only for opening
        brackets."""
        going_on = self.permitted.gather(1, kind.unsqueeze(1)).squeeze(1) & kind.ne(END)
        opens, closes = going_on & kind.eq(OPEN), going_on & kind.ge(CLOSE)
        # Written above the open labels, where it has no effect unless the token opens a bracket
        self.labels.scatter_(1, self.depth.unsqueeze(1), label.unsqueeze(1))
        self.depth = self.depth + opens.long() - closes.long()
        self.words_left = self.words_left - (going_on & kind.eq(WORD)).long()
        self.tokens_left = self.tokens_left - going_on.long()
        self.permitted = self.permit(going_on, opens)

    def permit(self, going_on: Tensor, empty: Tensor) -> Tensor:
        """Return the kinds that may follow, [R, C].

        going_on [R]: the row is not finished; empty [R]: its innermost bracket has no child yet.
        Invariant: tokens_left ≥ words_left + depth, the fewest tokens that complete the forest.
        """
        to_come = self.words_left.gt(0)
        needed = self.words_left + self.depth
        roomy = self.tokens_left.ge(needed + 2) & self.depth.lt(self.labels.size(1) - 1)
        permitted = torch.zeros_like(self.permitted)
        permitted[:, WORD] = going_on & to_come
        permitted[:, OPEN] = going_on & to_come & roomy
        permitted[:, END] = going_on & needed.eq(0)
        innermost = self.labels.gather(1, (self.depth - 1).clamp(min=0).unsqueeze(1))
        closable = going_on & self.depth.gt(0) & ~empty
        return permitted.scatter_(1, CLOSE + innermost, closable.unsqueeze(1))


class ConstrainedContinuations:
    """The continuations of a model, restricted to those that can become a tree."""

    def __init__(
        self,
        continuations: Continuations,
        symbols: TreeSymbols,
        words: Tensor,
        max_lengths: Tensor,
        deepest: int,
    ):
        """words, max_lengths [B]: each output is a forest over `words` words, with at most
        `max_lengths` tokens, not counting its end token, and at most `deepest` nested brackets.

        Raises ValueError for a sentence without words or with fewer tokens than words.
        """
        for n, longest in zip(words.tolist(), max_lengths.tolist(), strict=True):
            if n < 1:
                raise ValueError(f"a tree needs at least 1 word, got a sentence of {n}")
            if longest < n:
                raise ValueError(f"a tree over {n} words does not fit into {longest} tokens")
        self.continuations = continuations
        symbols = symbols.to(words.device)
        self.kinds, self.opened = symbols.kinds(), symbols.opened.clamp(min=0)
        deepest = min(deepest, int((max_lengths - words).max()) // 2)
        self.state = start_state(words, max_lengths, deepest, CLOSE + symbols.labels)
        self.sentences = words.numel()
        self.started = False

    def log_probabilities(self, tokens: Tensor) -> Iterator[Tensor]:
        """tokens [R, 1] → log P(next token) of all rows, in parts [rows, V]; −∞ for a token that is
        not allowed."""
        newest = tokens.squeeze(1)
        if self.started:  # the first call has an end token as its input, which no step has written
            self.state.append(self.kinds[newest], self.opened[newest])
        self.started = True
        start = 0
        for log_p in self.continuations.log_probabilities(tokens):
            permitted = self.state.permitted[start : start + log_p.size(0)]
            start += log_p.size(0)
            yield log_p.masked_fill_(~permitted[:, self.kinds], -math.inf)

    def follow(self, parents: Tensor) -> None:
        """Make beam j of sentence b a continuation of its beam parents[b, j]; parents [B, k]."""
        self.continuations.follow(parents)
        self._take_rows(torch.arange(self.sentences, device=parents.device), parents)

    def keep_sentences(self, sentences: Tensor) -> None:
        """Keep only these sentences [B']."""
        self.continuations.keep_sentences(sentences)
        beams = torch.arange(self._beams(), device=sentences.device)
        self._take_rows(sentences, beams.expand(sentences.numel(), -1))
        self.sentences = sentences.numel()

    def _beams(self) -> int:
        return self.state.depth.numel() // self.sentences

    def _take_rows(self, sentences: Tensor, beams: Tensor) -> None:
        """Keep the state of beams [B', k] of sentences [B']."""
        self.state = self.state.reordered((sentences[:, None] * self._beams() + beams).flatten())


def start_state(words: Tensor, max_lengths: Tensor, D: int, C: int) -> TreeState:
    """Return the state of rows that have written nothing yet; words, max_lengths [R]."""
    R = words.numel()
    state = TreeState(
        words_left=words,
        tokens_left=max_lengths,
        depth=torch.zeros_like(words),
        labels=words.new_zeros(R, D + 1),
        permitted=torch.zeros(R, C, dtype=torch.bool, device=words.device),
    )
    every = torch.ones_like(words, dtype=torch.bool)
    state.permitted = state.permit(every, ~every)
    return state


# Slow reference implementation of the tree constraint, which enumerates all forests.


Forest = tuple[str, ...]


def forests(
    words: int, max_length: int, labels: Sequence[str], symbols: Sequence[str], deepest: int
) -> Iterator[Forest]:
    """Yield every forest over `words` words with at most `max_length` tokens and at most `deepest`
    nested brackets; each word is written as one of `symbols`."""
    if words == 0:
        yield ()
    if words == 0 or max_length < words:
        return
    for first, inside in trees(words, max_length, labels, symbols, deepest):
        rest = forests(words - inside, max_length - len(first), labels, symbols, deepest)
        yield from (first + following for following in rest)


def trees(
    words: int, max_length: int, labels: Sequence[str], symbols: Sequence[str], deepest: int
) -> Iterator[tuple[Forest, int]]:
    """Yield every tree over 1 to `words` words with its number of words; a tree is a word, or a
    bracket around at least one tree."""
    yield from (((symbol,), 1) for symbol in symbols)
    if deepest == 0 or max_length < 3:
        return
    for inside in range(1, words + 1):
        for children in forests(inside, max_length - 2, labels, symbols, deepest - 1):
            for label in labels:
                yield (f"({label}", *children, f"){label}"), inside


def continuations(prefix: Forest, every: Sequence[Forest]) -> set[str]:
    """Return the tokens that may follow a prefix in these forests; "" stands for the end."""
    n = len(prefix)
    return {forest[n] if len(forest) > n else "" for forest in every if forest[:n] == prefix}

"""Section 6.3: a beam search that can only write trees over as many words as the source has.

A target is a forest under a root that is not written: opening labels, closing labels, and a symbol
in each word's place. A continuation is allowed if what it makes can still become a forest over
exactly n words within the sentence's maximum length; some continuation always is. P stays the
model's own: what is forbidden gets −∞, what is left is not scaled up.

Shape letters: R rows (a sentence's beams together), D open brackets at most, C kinds of tokens.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fairseq_aiayn.decoding.beam_search import Continuations

# Kinds of tokens: what a step may permit or not. A closing bracket's is CLOSE + its label.
NEVER, WORD, OPEN, END, CLOSE = range(5)


@dataclass(frozen=True)
class TreeSymbols:
    """What each target token is: opened and closed [V] (its label's number, −1 for none), is_word
    [V] bool, the end token; any other is never written.

    Raises ValueError where no tree can be written: no word symbol, or no label with both brackets.
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
        """[V], True for opening brackets whose label can be closed."""
        return self.opened.ge(0) & torch.isin(self.opened, self.closed)

    def kinds(self) -> Tensor:
        """[V], the kind of each token."""
        kinds = torch.full_like(self.opened, NEVER)
        kinds[self.is_word] = WORD
        kinds[self.closable()] = OPEN
        kinds[self.end] = END
        return torch.where(self.closed.ge(0), CLOSE + self.closed, kinds)

    def to(self, device: torch.device) -> TreeSymbols:
        """The same on another device."""
        return TreeSymbols(
            self.opened.to(device), self.closed.to(device), self.is_word.to(device), self.end
        )


def classify_tokens(tokens: Sequence[tuple[str, str]], end: int) -> TreeSymbols:
    """The symbols of a dictionary, whose tokens are given as a bracket and a name.

    ("(", "NP") opens NP, (")", "NP") closes it, ("", "NN") stands for a word; what has no name is
    never written.
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
    """What every row has still to write, and what it may write next.

    words_left, tokens_left, depth [R]; labels [R, D + 1], those open, outermost first, then what is
    left of closed ones; permitted [R, C]. A row that wrote its end token, or what it was not
    permitted (a beam without hypothesis), is permitted nothing any more.
    """

    words_left: Tensor
    tokens_left: Tensor
    depth: Tensor
    labels: Tensor
    permitted: Tensor

    def reordered(self, rows: Tensor) -> TreeState:
        """The state whose row i is this one's rows[i]."""
        return TreeState(*(value.index_select(0, rows) for value in vars(self).values()))

    def append(self, kind: Tensor, label: Tensor) -> None:
        """Write one token a row, of this kind [R]; label [R] counts for opening brackets only."""
        going_on = self.permitted.gather(1, kind.unsqueeze(1)).squeeze(1) & kind.ne(END)
        opens, closes = going_on & kind.eq(OPEN), going_on & kind.ge(CLOSE)
        # Above the open ones: where nothing is opened, it does not count
        self.labels.scatter_(1, self.depth.unsqueeze(1), label.unsqueeze(1))
        self.depth = self.depth + opens.long() - closes.long()
        self.words_left = self.words_left - (going_on & kind.eq(WORD)).long()
        self.tokens_left = self.tokens_left - going_on.long()
        self.permitted = self.permit(going_on, opens)

    def permit(self, going_on: Tensor, empty: Tensor) -> Tensor:
        """[R, C], what may follow in the rows that go on [R]; empty [R]: the innermost bracket has
        no child yet.

        Holds throughout: tokens_left ≥ words_left + depth, what is at least still to be written.
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
    """Continuations of a model of which only those are left that can become a tree."""

    def __init__(
        self,
        continuations: Continuations,
        symbols: TreeSymbols,
        words: Tensor,
        max_lengths: Tensor,
        deepest: int,
    ):
        """words, max_lengths [B]: each output is a forest over `words` words, of at most
        `max_lengths` tokens without its end token and `deepest` brackets inside each other.

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
        """tokens [R, 1] → log P(next token) [rows, V] of all rows, −∞ where it is not allowed."""
        newest = tokens.squeeze(1)
        if self.started:  # before the first token stands an end token that nobody has written
            self.state.append(self.kinds[newest], self.opened[newest])
        self.started = True
        start = 0
        for log_p in self.continuations.log_probabilities(tokens):
            permitted = self.state.permitted[start : start + log_p.size(0)]
            start += log_p.size(0)
            yield log_p.masked_fill_(~permitted[:, self.kinds], -math.inf)

    def follow(self, parents: Tensor) -> None:
        """Let beam j of sentence b continue what its beam parents[b, j] has seen; [B, k]."""
        self.continuations.follow(parents)
        self._take_rows(torch.arange(self.sentences, device=parents.device), parents)

    def keep_sentences(self, sentences: Tensor) -> None:
        """Go on with these sentences [B'] only."""
        self.continuations.keep_sentences(sentences)
        beams = torch.arange(self._beams(), device=sentences.device)
        self._take_rows(sentences, beams.expand(sentences.numel(), -1))
        self.sentences = sentences.numel()

    def _beams(self) -> int:
        return self.state.depth.numel() // self.sentences

    def _take_rows(self, sentences: Tensor, beams: Tensor) -> None:
        """Go on with the state of beams [B', k] of sentences [B']."""
        self.state = self.state.reordered((sentences[:, None] * self._beams() + beams).flatten())


def start_state(words: Tensor, max_lengths: Tensor, D: int, C: int) -> TreeState:
    """The state of rows that have nothing written yet; words, max_lengths [R]."""
    R = words.numel()
    state = TreeState(
        words_left=words,
        tokens_left=max_lengths,
        depth=torch.zeros_like(words),
        labels=words.new_zeros(R, D + 1),
        permitted=torch.zeros(R, C, dtype=torch.bool, device=words.device),
    )
    state.permitted = state.permit(words.ge(0), words.lt(0))
    return state

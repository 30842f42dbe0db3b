"""A model that is a random table, for searches and for their plain reference."""

import math
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from fairseq_aiayn.decoding.beam_search import Model

LONGEST = 16  # lengths with a distribution of their own


class TableModels:
    """A table of next-token probabilities for each sentence, indexed by the length so far and the
    last token; yields log P of `part` rows at a time.

    Like the state of a real decoder, it tracks its own history of tokens in follow and
    keep_sentences.
    """

    def __init__(self, B: int, V: int, end: int, seed: int, sharpness: float, part: int):
        torch.manual_seed(seed)
        self.tables = (sharpness * torch.randn(B, LONGEST, V, V)).log_softmax(-1)
        self.end = end
        self.sentence_of = torch.arange(B)
        self.part = part
        self.history = torch.empty(B, 0, dtype=torch.long)
        self.steps = 0

    def log_probabilities(self, tokens: Tensor) -> Iterator[Tensor]:
        self.steps += 1
        self.history = torch.cat([self.history, tokens], 1)
        sentence = self.sentence_of.repeat_interleave(len(tokens) // len(self.sentence_of))
        t = (self.history.size(1) - 1) % LONGEST
        yield from self.tables[sentence, t, tokens[:, 0]].split(self.part)

    def follow(self, parents: Tensor) -> None:
        B = self.sentence_of.numel()
        history = self.history.view(B, -1, self.history.size(1))
        self.history = history[torch.arange(B)[:, None], parents].flatten(0, 1)

    def keep_sentences(self, sentences: Tensor) -> None:
        history = self.history.unflatten(0, (self.sentence_of.numel(), -1))
        self.history = history[sentences].flatten(0, 1)
        self.sentence_of = self.sentence_of[sentences]

    def restricted(self, b: int, allows: Callable[[tuple[int, ...], int], bool]) -> Model:
        """The model of sentence b alone, which after some tokens writes only what is allowed."""

        def log_p(tokens: tuple[int, ...]) -> list[float]:
            values = self.tables[b, len(tokens) % LONGEST, (self.end, *tokens)[-1]].tolist()
            return [x if allows(tokens, y) else -math.inf for y, x in enumerate(values)]

        return log_p

"""Sentences in, outputs out, in batches of similar lengths: what every engine of inference shares.

Nothing here imports torch or fairseq.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Generic, TypeVar

from fairseq_aiayn.inference.description import Cut

__all__ = ["BATCH_TOKENS", "Engine", "pieces_of"]

BATCH_TOKENS = 4_096  # source tokens per batch, with padding
LONGEST_PIECE = 100  # characters; those of SentencePiece and subword-nmt are shorter
AT_ONCE = 2_000  # sentences that a stream sorts by length

Sentence = TypeVar("Sentence")
Source = TypeVar("Source")
Output = TypeVar("Output")


@dataclass(frozen=True)
class Engine(Generic[Sentence, Source, Output]):
    """Map sentences to outputs, in their order, by batches of similar lengths.

    read: what a model reads of a sentence; raises ValueError for an invalid one. run: the outputs
    of a batch. empty: makes the output for a sentence without tokens, by `length`.
    """

    read: Callable[[Sentence], Source]
    run: Callable[[list[Source]], Iterable[Output]]
    empty: Callable[[], Output]
    batch_tokens: int
    length: Callable[[Any], int] = len

    def __call__(self, sentences: Iterable[Sentence]) -> list[Output]:
        """Return the output of each sentence; raises as `stream` does."""
        return [*self.stream(sentences, at_once=None)]

    def stream(
        self, sentences: Iterable[Sentence], at_once: int | None = AT_ONCE
    ) -> Iterator[Output]:
        """Yield the output of each sentence; `at_once` of them are read and sorted by length.
        Raises ValueError with the number of an invalid sentence, after the outputs before it, and
        TypeError for what is not an iterable of sentences."""
        for number, output in enumerate(self.outputs(sentences, at_once), start=1):
            if isinstance(output, ValueError):
                raise ValueError(f"sentence {number}: {output}") from output
            yield output

    def outputs(
        self, sentences: Iterable[Sentence], at_once: int | None = AT_ONCE
    ) -> Iterator[Output | ValueError]:
        """Yield what `stream` does, but the error of an invalid sentence in its place."""
        require_sentences(sentences)
        rest = iter(sentences)
        while True:
            sources: list[Source] = []
            error: ValueError | None = None
            for sentence in islice(rest, at_once):
                try:
                    sources.append(self.read(sentence))
                except ValueError as invalid:
                    error = invalid
                    break
            yield from self._in_batches(sources)
            if error:
                yield error
            elif not sources:
                return

    def _in_batches(self, sources: Sequence[Source]) -> Iterator[Output]:
        outputs: dict[int, Output] = {}
        for batch in batches([*map(self.length, sources)], self.batch_tokens):
            outputs |= zip(batch, self.run([sources[index] for index in batch]), strict=True)
        for index in range(len(sources)):
            yield outputs[index] if index in outputs else self.empty()


def batches(lengths: Sequence[int], most_tokens: int) -> Iterator[list[int]]:
    """Yield the indices of all lengths but 0, longest first, in batches that have at most
    `most_tokens` tokens with padding, or one sentence."""
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True):
        if not lengths[index]:
            break
        if batch and lengths[batch[0]] * (len(batch) + 1) > most_tokens:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


@dataclass(frozen=True)
class Translation:
    """One output of the search for a sentence; by default, that of an empty one."""

    text: str = ""
    score: float = 0.0  # log P divided by the length penalty (section 6.1), in nats
    log_p: float = 0.0  # log P of the pieces and of the end token, in nats
    pieces: tuple[str, ...] = ()


def require_sentences(sentences: object) -> None:
    """Raise TypeError for what is not an iterable of sentences; a str is one of letters."""
    if isinstance(sentences, str | bytes) or not isinstance(sentences, Iterable):
        raise TypeError(f"expected a list of sentences, got {sentences!r:.60}")


def pieces_of(sentence: str, cut: Cut, longest: int) -> list[str]:
    """Return the pieces of a sentence; raises ValueError for too many, TypeError for no str."""
    if not isinstance(sentence, str):
        raise TypeError(f"expected a sentence, a str, got {sentence!r:.60}")
    if cut is not str.split:
        require_short(sentence, longest)
    pieces = cut(sentence)
    if len(pieces) > longest:
        raise ValueError(f"expected at most {longest:,} tokens, got {len(pieces):,}")
    return pieces


def require_short(sentence: str, longest: int) -> None:
    """Raise ValueError for more characters than `longest` pieces have: splitting megabytes takes
    seconds."""
    if len(sentence) > longest * LONGEST_PIECE:
        characters = sum(map(len, sentence.split()))
        if characters > longest * LONGEST_PIECE:
            raise ValueError(f"expected at most {longest:,} tokens, got {characters:,} characters")
